#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/element.h"
#include "comm/local/sole_rank.h"
#include "kernels/kernel_table.h"
#include "memory/bucket.h"
#include "models/init.h"
#include "models/stage.h"
#include "tensor/tensor.h"

// Small models and a whole stage over one micro-batch, for the tests of models/.
namespace trireme {

inline constexpr int64_t kSeqLen = 12;  // odd against every vector width and attention tile
inline constexpr int64_t kSequences = 3;
inline constexpr int64_t kVocab = 37;

inline std::vector<const KernelTable*> all_kernels() {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (const Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
  return tables;
}

inline ModelSpec model_of(const std::string& name) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 24;
  config.heads = 4;
  config.vocab_size = kVocab;
  config.seq_len = kSeqLen;
  config.init_stddev = 0.2;
  config.tied_head = name.ends_with("tied");
  if (name.starts_with("gpt2_dropout")) config.dropout = 0.2;
  if (name.starts_with("llama")) {
    config.family = ModelFamily::Llama;
    config.kv_heads = 2;
    config.d_ff = 40;
  }
  if (name.starts_with("moe")) {
    config.family = ModelFamily::Moe;
    config.kv_heads = 2;
    config.d_ff = 20;
    config.experts = 4;
    config.aux_loss = 0.05;
    config.z_loss = 0.01;
  }
  if (name == "moe_sigmoid") {
    config.experts = 6;
    config.top_k = 3;
    config.shared_experts = 1;
    config.router = RouterType::Sigmoid;
    config.z_loss = 0.0;
    config.expert_groups = 3;
    config.top_groups = 2;
    config.balance_rate = 0.01;
    config.dropout = 0.2;
  }
  if (name.starts_with("moe_parallel")) config.parallel_block = true;
  if (name == "moe_capacity") config.capacity_factor = 0.75;
  if (name == "moe_dense_first") config.dense_layers = 1;
  if (name == "llama_dropout") config.dropout = 0.3;
  if (name == "llama_qk_norm") config.qk_norm = true;
  if (name == "llama_window") config.window = 5;
  if (name.ends_with("latent")) {
    config.kv_heads = 0;
    config.kv_lora_rank = 10;
    config.q_lora_rank = name == "moe_latent" || name == "moe_lora_latent" ? 14 : 0;
    config.qk_rope_head_dim = 4;
    config.v_head_dim = 5;
    config.rope_scaling = RopeScaling::Yarn;
    config.rope_scaling_factor = 4.0;
    config.rope_high_freq_factor = 32.0;
    config.rope_original_seq_len = 64;
    config.routed_scaling = 2.5;
  }
  if (name == "microgpt") {
    config.norm = NormChoice::RmsNorm;
    config.activation = ActivationChoice::Relu;
    config.bias = false;
    config.norm_gain = false;
    config.embedding_norm = true;
    config.final_norm = false;
  }
  if (name.starts_with("scaled")) {
    config.layer_scale = 0.3;
    config.dropout = name == "scaled_dropout" ? 0.2 : 0.0;
  }
  if (name.starts_with("parallel")) {
    config.parallel_block = true;
    config.activation = ActivationChoice::Relu2;
    config.dropout = name == "parallel_dropout" ? 0.2 : 0.0;
  }
  if (name.find("mtp") != std::string::npos) {
    config.layers = 1;
    config.mtp_depth = 2;
    config.mtp_loss_weight = 0.7;
  }
  if (name == "conv_net" || name == "resnet") {
    config.family = name == "resnet" ? ModelFamily::ResNet50 : ModelFamily::ConvNet;
    config.layers = 1;
    config.image_size = name == "resnet" ? 16 : 8;
    config.seq_len = 1;
  }
  if (name == "gpt2_erf_embedding_norm") {
    config.activation = ActivationChoice::GeluErf;
    config.embedding_norm = true;
  }
  if (name.find("lora") != std::string::npos) {
    config.lora_rank = 3;
    config.lora_alpha = 4.5;
    if (name == "moe_lora") config.lora_targets = "q,v,o";
    if (name == "moe_lora_latent") config.lora_targets = "q_a,q_b,kv_a,kv_b,o";
    if (name.starts_with("parallel")) config.lora_targets = "o,up";
  }
  return *resolve_model(config, 0);
}

inline const char* const kModels[] = {"gpt2_tied",
                                      "gpt2_dropout_tied",
                                      "gpt2_erf_embedding_norm",
                                      "llama",
                                      "llama_dropout",
                                      "microgpt",
                                      "moe",
                                      "moe_sigmoid",
                                      "moe_capacity",
                                      "moe_dense_first",
                                      "parallel",
                                      "parallel_dropout",
                                      "moe_parallel",
                                      "scaled",
                                      "scaled_dropout",
                                      "gpt2_dropout_lora_tied",
                                      "llama_lora",
                                      "moe_lora",
                                      "parallel_lora",
                                      "llama_qk_norm",
                                      "llama_latent",
                                      "moe_latent",
                                      "llama_lora_latent",
                                      "moe_lora_latent",
                                      "moe_parallel_latent",
                                      "gpt2_dropout_mtp_tied",
                                      "moe_mtp"};

// Returns every model with the kernels of the newest instruction set, and two models with the
// reference kernels and with those of each older set. With `all` every set takes every model.
inline std::vector<std::pair<const KernelTable*, const char*>> kernels_and_models(bool all) {
  std::vector<std::pair<const KernelTable*, const char*>> chosen;
  for (const KernelTable* kernels : all_kernels()) {
    for (const std::string_view name : kModels) {
      const bool is_of_both = name == "gpt2_dropout_tied" || name == "moe_latent";
      if (all || kernels == all_kernels().back() || is_of_both) {
        chosen.emplace_back(kernels, name.data());
      }
    }
  }
  return chosen;
}

class TestStage;

// How a micro-batch is computed.
struct Way {
  Recompute recompute = Recompute::None;
  bool split_backward = false;
  int num_threads = 1;
  bool tied_use_apart = false;
  bool sequence_parallel = false;
  bool tp_overlap = false;
  int slices = 0;
  uint64_t again = 0;  // Recompute::Fit: the values that are computed again
  // [layer][token of the whole micro-batch]: the experts that it goes to; empty: as routed.
  std::vector<std::vector<std::vector<int32_t>>> routes = {};
  std::function<void(TestStage&)> change = {};  // of parameters, before anything runs
  // The first tokens of documents in each sequence of the whole micro-batch; empty: no document
  // mask.
  std::vector<std::vector<int64_t>> documents = {};
  std::function<int32_t(int64_t)> token = {};  // of the whole micro-batch; empty: a pattern
  std::function<int32_t(int64_t)> target = {};
  ContextExchange context_exchange = ContextExchange::Ring;
  std::vector<LayerRule> layers = {};
  int64_t leaves = 1;
  Group* batch = nullptr;  // ranks whose images are one batch; null: a rank alone
};

// A stage over tables of its own, each piece of memory filled with a pattern first: whoever reads
// what was not written shows.
class TestStage {
 public:
  // The ranks that share the layers, the sequences and the experts; null: a rank alone.
  TestStage(const ModelSpec& model, const KernelTable& kernels, DType compute, Way way = {},
            Group* tp = nullptr, Group* cp = nullptr, Group* ep = nullptr)
      : way_(way),
        model_(model),
        tp_(tp != nullptr ? *tp : rank_.group()),
        cp_(cp != nullptr ? *cp : rank_.group()),
        ep_(ep != nullptr ? *ep : rank_.group()),
        batch_(way.batch != nullptr ? *way.batch : rank_.group()),
        shape_{.micro_sequences = kSequences,
               .compute = compute,
               .recompute = way.recompute,
               .split_backward = way.split_backward,
               .tied_use_apart = way.tied_use_apart,
               .tp = tp_.size(),
               .tp_rank = tp_.rank(),
               .slices = way.slices,
               .sequence_parallel = way.sequence_parallel,
               .tp_overlap = way.tp_overlap,
               .cp = cp_.size(),
               .cp_rank = cp_.rank(),
               .context_exchange = way.context_exchange,
               .batch_ranks = batch_.size(),
               .leaves = way.leaves,
               .ep = ep_.size(),
               .ep_rank = ep_.rank(),
               .again = way.again,
               .documents = !way.documents.empty(),
               .layers = way.layers},
        layouts_(param_layouts(model, whole_model(model), shape_)),
        tables_(stage_tables(model, whole_model(model), shape_)),
        params_(memory(tables_.params)),
        optimizer_(memory(tables_.optimizer)),
        grads_(memory(tables_.grads)),
        saved_(memory(tables_.saved)),
        weight_grad_(memory(tables_.weight_grad)),
        scratch_(memory(tables_.scratch)),
        team_(way.num_threads),
        workspace_(DType::U8, Shape{way.num_threads * kWorkspaceBytesPerThread}),
        stream_(team_,
                {static_cast<std::byte*>(workspace_.ref().data), size_t(workspace_.ref().bytes())}),
        ctx_{stream_, kernels, tp_, cp_, ep_, batch_},
        stage_(model, whole_model(model), shape_, tables_, stage_memory(), kSeed) {
    init_params(ctx_, local_param_table(model, whole_model(model), shape_), params(),
                Frame(tables_.optimizer, optimizer_.ref().data), kSeed, layouts_);
    for (const ParamLayout& layout : layouts_) fill_adapter(layout);
    if (way_.change) way_.change(*this);
    if (model.reads_images()) fill_images();
    for (int64_t i = 0; i < num_tokens(); ++i) {
      const int64_t t = whole_token(i);
      if (!model.reads_images()) {
        stage_.tokens(0)[i] = way_.token ? way_.token(t) : int32_t((t * 7 + t * t) % kVocab);
      }
      const int32_t target = t % 11 == 3 ? kIgnoredTarget : int32_t((t * 5 + 1) % kVocab);
      stage_.targets(0)[i] = way_.target ? way_.target(t) : target;
    }
    fill_ahead();
    if (!way_.documents.empty()) place_documents();
  }

  // This rank's tokens, and which of the whole micro-batch they are.
  int64_t num_tokens() const { return kSequences * model_.seq_len / shape_.cp; }
  int64_t whole_token(int64_t i) const {
    return ContextChunks{model_.seq_len, shape_.cp, shape_.cp_rank}.whole_token(i);
  }

  // Returns the sum of the losses. In training it has the weighted losses of the modules that look
  // ahead, too.
  double forward(bool training = true) {
    for (size_t layer = 0; layer < way_.routes.size(); ++layer) {
      const MatrixRef expert_Tk = route(int(layer)).expert_Tk;
      for (int64_t i = 0; i < num_tokens(); ++i) {
        const std::vector<int32_t>& chosen = way_.routes[layer][size_t(whole_token(i))];
        std::copy(chosen.begin(), chosen.end(), expert_Tk.row<int32_t>(i));
      }
    }
    for (int unit = 0; unit < stage_.num_units(); ++unit) {
      stage_.forward_unit(ctx_, info(training), 0, unit);
    }
    double sum = 0.0;
    for (const float loss : stage_.losses(0)) sum += loss;
    for (int64_t ahead = 1; training && ahead <= model_.mtp_depth; ++ahead) {
      const double weight = model_.mtp_loss_weight / double(model_.mtp_depth);
      for (const float loss : stage_.losses_ahead(ahead, 0)) sum += weight * double(loss);
    }
    return sum;
  }

  void backward(Write write = Write::Overwrite) {
    const StageSlots slots{0, 0, 0, write};
    const auto run = [&](Backward half) {
      for (int unit = stage_.num_units(); unit-- > 0;) {
        stage_.backward_unit(ctx_, info(true), slots, unit, half);
      }
    };
    if (way_.split_backward) {
      run(Backward::Input);
      run(Backward::Weight);
    } else {
      run(Backward::Whole);
    }
  }

  // Of a layer, or of a module that looks ahead, which counts as a layer behind the last one and
  // lies in the head.
  Route route(int layer) const {
    const int module = std::max(0, layer - int(model_.layers));
    return stage_.route(0, layer + 1 - module, module);
  }
  Frame params() const { return Frame(tables_.params, params_.ref().data); }
  Frame grads() const { return Frame(tables_.grads, grads_.ref().data); }
  const StageTables& tables() const { return tables_; }
  const StageShape& shape() const { return shape_; }
  const std::vector<ParamLayout>& layouts() const { return layouts_; }
  std::vector<float> losses() const { return {stage_.losses(0).begin(), stage_.losses(0).end()}; }

  // The gradient of a parameter, both uses of a tied one together.
  std::vector<float> grad(const std::string& name) const {
    const TensorRef grad = grads().at(name);
    std::vector<float> values(grad.as<float>(), grad.as<float>() + grad.num_elements());
    if (const TensorRef head = grads().find(name + "@head")) {
      for (size_t i = 0; i < values.size(); ++i) values[i] += head.as<float>()[i];
    }
    return values;
  }
  std::map<std::string, std::vector<float>> all_grads() const {
    std::map<std::string, std::vector<float>> all;
    for (const TensorSpec& tensor : tables_.grads.tensors()) {
      const float* values = grads().at(tensor.name).as<float>();
      all[tensor.name] = {values, values + tensor.shape.num_elements()};
    }
    return all;
  }

 private:
  static constexpr uint64_t kSeed = 5;

  // Tokens and targets of the modules that look ahead; any will do.
  void fill_ahead() {
    for (int64_t ahead = 1; ahead <= model_.mtp_depth; ++ahead) {
      for (int64_t i = 0; i < num_tokens(); ++i) {
        const int64_t t = whole_token(i) + ahead;
        stage_.tokens_ahead(ahead, 0)[i] = int32_t((t * 7 + t * t) % kVocab);
        const int32_t target = t % 11 == 3 ? kIgnoredTarget : int32_t((t * 5 + 1) % kVocab);
        stage_.targets_ahead(ahead, 0)[i] = target;
      }
    }
  }

  void fill_images() {
    uint32_t word = 1;
    for (int32_t& bytes : stage_.tokens(0)) {
      word = word * 1664525u + 1013904223u;
      bytes = int32_t(word ^ word >> 15);
    }
  }

  void place_documents() {
    const Documents documents = stage_.documents(0);
    const auto first_of = [&](int64_t t) {
      int64_t first = 0;
      for (const int64_t begin : way_.documents[size_t(t / kSeqLen)]) {
        if (begin <= t % kSeqLen) first = begin;
      }
      return int32_t(first);
    };
    for (int64_t i = 0; i < num_tokens(); ++i) {
      const int64_t t = whole_token(i);
      documents.first_T.as<int32_t>()[i] = first_of(t);
      documents.position_T.as<int32_t>()[i] = int32_t(t % kSeqLen) - first_of(t);
    }
    if (!documents.first_N) return;
    for (int64_t t = 0; t < kSequences * kSeqLen; ++t) {
      documents.first_N.as<int32_t>()[t] = first_of(t);
    }
  }

  // An adapter begins with zeros, which would hide half of what it computes.
  void fill_adapter(const ParamLayout& layout) {
    if (!layout.name.ends_with(".lora_b")) return;
    const TensorRef b = params().at(layout.name);
    const BoxElements box = box_elements(layout);
    for (int64_t i = 0; i < b.num_elements(); ++i) {
      const double whole = double(box.in_whole(i));
      write_element(b.data, b.dtype, i, 0.2 * std::sin(whole * 0.7 + double(layout.name.size())));
    }
  }

  static Tensor memory(const TensorTable& table) {
    Tensor tensor(DType::U8, Shape{std::max<int64_t>(64, table.bytes())});
    std::memset(tensor.ref().data, 0xff, size_t(tensor.ref().bytes()));  // NaN in every dtype
    return tensor;
  }
  StageMemory stage_memory() const {
    const size_t units = size_t(num_units(whole_model(model_)));
    StageMemory memory{std::vector<void*>(units, params_.ref().data),
                       scratch_.ref().data,
                       {std::vector<void*>(units, grads_.ref().data)},
                       {saved_.ref().data},
                       {}};
    if (way_.split_backward) memory.weight_grad_slots = {weight_grad_.ref().data};
    return memory;
  }
  MicrobatchInfo info(bool training) const {
    return {kSequences, 17, training, !way_.routes.empty()};
  }

  Way way_;
  ModelSpec model_;
  SoleRank rank_;
  Group& tp_;
  Group& cp_;
  Group& ep_;
  Group& batch_;
  StageShape shape_;
  std::vector<ParamLayout> layouts_;
  StageTables tables_;
  Tensor params_, optimizer_, grads_, saved_, weight_grad_, scratch_;
  ThreadTeam team_;
  Tensor workspace_;
  Stream stream_;
  Ctx ctx_;
  Stage stage_;
};

}  // namespace trireme
