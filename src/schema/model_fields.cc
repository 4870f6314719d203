#include "schema/field_list.h"

namespace trireme {

void add_model_fields(FieldList& list, ModelConfig& model) {
  list.section("model");
  list.add("preset", model.preset, kResults,
           "name of a file in models/, such as \"gpt2-124m\"; its model replaces that of earlier "
           "files, and the file that names the preset can override its keys; empty in the resolved "
           "configuration");
  list.add("family", model.family, kResults,
           "gpt2: learned positions, LayerNorm, GELU; llama: RoPE, RMSNorm, SwiGLU, no biases; "
           "moe: llama with a mixture of experts in place of the MLP; the others read images: "
           "conv_net is small, alexnet, vgg16, resnet50 and wide_resnet are the known ones");
  list.add("layers", model.layers, kResults, "number of transformer layers");
  list.add("d_model", model.d_model, kResults, "width of the residual stream");
  list.add("heads", model.heads, kResults, "number of query heads");
  list.add("kv_heads", model.kv_heads, kResults,
           "number of key and value heads; 0: as many as query heads");
  list.add("head_dim", model.head_dim, kResults, "width of one head; 0: d_model / heads");
  list.add("d_ff", model.d_ff, kResults,
           "hidden width of the MLP; 0: 4 d_model, or 8/3 d_model rounded up to a multiple of 64 "
           "with SwiGLU");
  list.add("vocab_size", model.vocab_size, kResults,
           "number of rows in the embedding table; 0: the vocabulary size of the tokenizer");
  list.add("seq_len", model.seq_len, kResults,
           "tokens in one sequence, which is also the longest context");
  list.add("activation", model.activation, kResults,
           "activation function of the MLP; empty: the default of the family, gelu_tanh (gpt2) or "
           "swiglu (llama)");
  list.add("norm", model.norm, kResults,
           "kind of normalization; empty: the default of the family, layer_norm (gpt2) or rms_norm "
           "(llama)");
  list.add("positions", model.positions, kResults,
           "kind of position encoding; empty: the default of the family, learned (gpt2) or rope "
           "(llama)");
  list.add("bias", model.bias, kResults, "gpt2: linear layers and LayerNorm have biases");
  list.add("norm_gain", model.norm_gain, kResults, "norms have a learned gain");
  list.add("parallel_block", model.parallel_block, kResults,
           "attention and MLP read the same norm of the layer's input, and both are added to it");
  list.add("layer_scale", model.layer_scale, kResults,
           "what attention and MLP add to the residual stream is multiplied by a trained gain per "
           "channel, which starts at this value; 0: no gains");
  list.add("embedding_norm", model.embedding_norm, kResults, "a norm follows the embedding");
  list.add("final_norm", model.final_norm, kResults, "a norm precedes the head");
  list.add("tied_head", model.tied_head, kResults,
           "the head shares its weights with the embedding table");
  list.add("norm_eps", model.norm_eps, kResults,
           "number that norms add to the variance to avoid a division by zero");
  list.add("dropout", model.dropout, kResults,
           "probability that an element is dropped after the embedding, the attention weights and "
           "the projections");
  list.add("init_stddev", model.init_stddev, kResults,
           "standard deviation of the normal distribution that initial weights are drawn from");
  list.add("init_scale_residual", model.init_scale_residual, kResults,
           "initial weights of projections onto the residual stream have the smaller standard "
           "deviation init_stddev / sqrt(2 layers)");
  list.add("rope_theta", model.rope_theta, kResults, "base of the rotary frequencies");
  list.add("rope_scaling", model.rope_scaling, kResults,
           "how frequencies between the two factors below are blended: llama3 by the number of "
           "turns, yarn by the logarithm of it, with sharper attention (rope_mscale)");
  list.add("rope_scaling_factor", model.rope_scaling_factor, kResults,
           "factor by which low rotary frequencies are stretched; 1: no stretching");
  list.add("rope_low_freq_factor", model.rope_low_freq_factor, kResults,
           "wavelengths longer than rope_original_seq_len divided by this are stretched by the "
           "full factor (beta_slow of YaRN)");
  list.add("rope_high_freq_factor", model.rope_high_freq_factor, kResults,
           "wavelengths shorter than rope_original_seq_len divided by this are not stretched "
           "(beta_fast of YaRN)");
  list.add("rope_original_seq_len", model.rope_original_seq_len, kResults,
           "context length for which the frequencies were made, before stretching");
  list.add("rope_mscale", model.rope_mscale, kResults,
           "yarn: attention logits are multiplied by (0.1 rope_mscale ln(rope_scaling_factor) + "
           "1)^2");
  list.add("qk_norm", model.qk_norm, kResults,
           "an RMS norm of every head of queries and keys before rotary positions, with one gain "
           "for all heads (Qwen3)");
  list.add("window", model.window, kResults,
           "number of keys that a query sees, its own included (sliding window of Mistral); 0: "
           "all keys before it");
  list.add("kv_lora_rank", model.kv_lora_rank, kResults,
           "width of the latent that keys and values are made from (latent attention of DeepSeek); "
           "head_dim is then the width of queries and keys without positions; 0: no latent");
  list.add("q_lora_rank", model.q_lora_rank, kResults,
           "width of the latent that queries are made from; 0: they are made from the residual "
           "stream");
  list.add("qk_rope_head_dim", model.qk_rope_head_dim, kResults,
           "latent attention: width of the part of queries and keys with rotary positions, which "
           "all heads of the keys share");
  list.add("v_head_dim", model.v_head_dim, kResults,
           "latent attention: width of a head of the values; 0: head_dim");
  list.add("index_top_k", model.index_top_k, kResults,
           "sparse attention (GLM-5): number of keys that an indexer chooses for every query; plan "
           "prices such a model, and nothing runs it; 0: a query sees all keys before it");
  list.add("index_heads", model.index_heads, kResults,
           "sparse attention: number of heads of the indexer");
  list.add("index_head_dim", model.index_head_dim, kResults,
           "sparse attention: width of a head of the indexer");
  list.add("experts", model.experts, kResults,
           "moe: number of experts that tokens are routed to; each has the width d_ff");
  list.add("top_k", model.top_k, kResults, "moe: number of routed experts that each token visits");
  list.add("shared_experts", model.shared_experts, kResults,
           "moe: number of experts that every token visits in addition to the routed ones; each "
           "has the width d_ff");
  list.add("dense_layers", model.dense_layers, kResults,
           "moe: number of layers, from the first on, that have a dense MLP instead of experts");
  list.add("dense_d_ff", model.dense_d_ff, kResults,
           "moe: width of the MLP of the dense layers; 0: as wide as the experts that a token "
           "visits, (top_k + shared_experts) * d_ff");
  list.add("router", model.router, kResults,
           "moe: function that turns the logits of a token into the scores of the experts");
  list.add("expert_groups", model.expert_groups, kResults,
           "moe: number of groups of neighbouring experts; a token visits only experts in its best "
           "groups");
  list.add("top_groups", model.top_groups, kResults,
           "moe: number of groups that a token may visit; the score of a group is the sum of its "
           "two best experts");
  list.add("routed_scaling", model.routed_scaling, kResults,
           "moe: factor of the weights of the routed experts, after they are divided by their sum");
  list.add("capacity_factor", model.capacity_factor, kResults,
           "moe: an expert accepts at most this many times its even share of the tokens in a "
           "micro-batch, in token order, and drops the rest; 0: no limit");
  list.add("aux_loss", model.aux_loss, kResults,
           "moe: weight of the loss that balances the load of the experts in each sequence");
  list.add(
      "z_loss", model.z_loss, kResults,
      "moe: weight of the squared log-sum-exp of the router logits, which is added to the loss");
  list.add("balance_rate", model.balance_rate, kResults,
           "moe: step size of a bias that balances the choice of experts by their load, without a "
           "loss; 0: no bias");
  list.add("mtp_depth", model.mtp_depth, kResults,
           "number of modules behind the last layer that each predict one token further ahead "
           "(multi-token prediction); they train the model and are left out of evaluation and "
           "generation; 0: none");
  list.add("mtp_loss_weight", model.mtp_loss_weight, kResults,
           "weight of the mean loss of these modules, which is added to the loss");
  list.add("lora_rank", model.lora_rank, kResults,
           "rank of the trained adapters (LoRA) beside the matrices of model.lora_targets; every "
           "other parameter is frozen; 0: no adapters, everything is trained");
  list.add("lora_alpha", model.lora_alpha, kResults,
           "an adapter adds lora_alpha / lora_rank times its product; 0: 2 lora_rank");
  list.add(
      "lora_targets", model.lora_targets, kResults,
      "matrices of every layer that have an adapter, between commas: q, k, v, o, gate, up, "
      "down; of latent attention q_a, q_b, kv_a, kv_b, o; all: each of them that the model has");
  list.add("image_size", model.image_size, kResults,
           "nets of images: rows and columns of an image; images of a folder are scaled to it");
  list.add("image_channels", model.image_channels, kResults,
           "nets of images: channels of a pixel; 1: grey, 3: red, green and blue");
  list.add("width_factor", model.width_factor, kResults,
           "conv_net: factor of the channels of every layer, which are 16, 32, ... ; wide_resnet: "
           "factor of the inner channels of every block");
  list.add("base_channels", model.base_channels, kResults,
           "conv_net, wide_resnet: channels of the first convolution, to which those of all other "
           "layers are in proportion; 0: 16 of a conv_net, 64 of a wide_resnet");
  list.add("widen_first_conv", model.widen_first_conv, kResults,
           "wide_resnet: width_factor counts for the channels of the first convolution of a block, "
           "too, as in torchvision; false: only for those of the 3 x 3 convolution, as in Alpa");
  list.add(
      "batch_norm", model.batch_norm, kResults,
      "nets of images: over which images a batch norm takes its mean and variance: those of a "
      "micro-batch, or all images of the step; then a rank computes its micro-batches at once");
}

}  // namespace trireme
