#include "interchange/hugging_face_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/input_limits.h"
#include "checkpoint/strict_json.h"
#include "interchange/foreign_family.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr int64_t kGreatestWidth = limits::kWidth;
constexpr int64_t kGreatestLayers = limits::kLayers;

// Thrown for a valid setting that our models do not support.
struct Unsupported {
  std::string message;
};

// The values of an object. An absent value and null mean the same.
class Fields {
 public:
  explicit Fields(const json& object, std::string where = "") : where_(std::move(where)) {
    if (!object.is_object())
      throw FieldError{where_.empty() ? "not an object" : where_ + ": not an object"};
    object_ = &object;
  }

  const json* find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  int64_t count(const char* key, std::optional<int64_t> otherwise = {},
                int64_t greatest = kGreatestWidth) const {
    const json* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr) throw FieldError{"no key \"" + name(key) + "\""};
    if (!value->is_number_unsigned() || value->get<uint64_t>() > static_cast<uint64_t>(greatest)) {
      throw FieldError{
          fmt::format("{}: {} is not an integer from 0 to {}", name(key), shown(*value), greatest)};
    }
    return static_cast<int64_t>(value->get<uint64_t>());
  }
  double number(const char* key, double otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number())
      throw FieldError{name(key) + ": " + shown(*value) + " is not a number"};
    return value->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean())
      throw FieldError{name(key) + ": " + shown(*value) + " is not true or false"};
    return value->get<bool>();
  }
  std::string word(const char* key, const std::string& otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string())
      throw FieldError{name(key) + ": " + shown(*value) + " is not a string"};
    return value->get<std::string>();
  }
  void refuse_flag(const char* key, bool refused, const char* what) const {
    if (flag(key, !refused) == refused) {
      throw Unsupported{fmt::format("{} = {}: {} is not supported", name(key), refused, what)};
    }
  }

 private:
  std::string name(const char* key) const { return where_.empty() ? key : where_ + "." + key; }
  static std::string shown(const json& value) {
    return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 80);
  }

  const json* object_ = nullptr;
  std::string where_;
};

ActivationChoice activation_of(const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return ActivationChoice::GeluTanh;
  if (name == "gelu" || name == "gelu_python") return ActivationChoice::GeluErf;
  if (name == "relu") return ActivationChoice::Relu;
  if (name == "relu2") return ActivationChoice::Relu2;
  throw Unsupported{"activation_function = \"" + name +
                    "\"; gelu_new, gelu, relu and relu2 are supported"};
}

void read_gpt2(const Fields& fields, ModelConfig& model) {
  model.family = ModelFamily::Gpt2;
  model.layers = fields.count("n_layer", 12, kGreatestLayers);
  model.d_model = fields.count("n_embd", 768);
  model.heads = fields.count("n_head", 12);
  model.d_ff = fields.count("n_inner", 4 * model.d_model, 4 * kGreatestWidth);
  model.vocab_size = fields.count("vocab_size", 50257);
  model.seq_len = fields.count("n_positions", fields.count("n_ctx", 1024));
  model.activation = activation_of(fields.word("activation_function", "gelu_new"));
  model.norm_eps = fields.number("layer_norm_epsilon", 1e-5);
  model.dropout = fields.number("resid_pdrop", 0.1);
  model.tied_head = fields.flag("tie_word_embeddings", true);
  fields.refuse_flag("scale_attn_weights", false, "attention without 1/sqrt(head_dim)");
  fields.refuse_flag("scale_attn_by_inverse_layer_idx", true, "attention scaled by the layer");
  fields.refuse_flag("add_cross_attention", true, "cross-attention");
}

// transformers 4 has rope_theta and rope_scaling; transformers 5 has rope_parameters with both.
void read_rope(const Fields& fields, double default_theta, ModelConfig& model) {
  model.rope_theta = fields.number("rope_theta", default_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.find(key);
    if (object == nullptr) continue;
    const Fields rope(*object, key);
    const double theta = rope.number("rope_theta", model.rope_theta);
    if (fields.find("rope_theta") != nullptr && theta != model.rope_theta) {
      throw FieldError{
          fmt::format("rope_theta = {} but {}.rope_theta = {}", model.rope_theta, key, theta)};
    }
    model.rope_theta = theta;
    const std::string type = rope.word("rope_type", rope.word("type", "default"));
    if (type == "default") continue;
    if (type != "llama3") {
      throw Unsupported{fmt::format(
          "{}: positions scaled by \"{}\"; none and \"llama3\" are supported", key, type)};
    }
    model.rope_scaling_factor = rope.number("factor", 8.0);
    model.rope_low_freq_factor = rope.number("low_freq_factor", 1.0);
    model.rope_high_freq_factor = rope.number("high_freq_factor", 4.0);
    model.rope_original_seq_len = rope.count("original_max_position_embeddings", 8192);
  }
  const bool is_sound = model.rope_theta > 0.0 && model.rope_scaling_factor >= 1.0 &&
                        model.rope_low_freq_factor > 0.0 &&
                        model.rope_high_freq_factor > model.rope_low_freq_factor &&
                        std::isfinite(model.rope_theta) &&
                        std::isfinite(model.rope_scaling_factor) && model.rope_original_seq_len > 0;
  if (!is_sound) throw FieldError{"the numbers of rotary positions contradict each other"};
}

// Settings that Llama and Mixtral share, with the library's defaults for absent keys.
struct RotaryDefaults {
  int64_t seq_len = 2048;
  double rope_theta = 10000.0;
  double norm_eps = 1e-6;
};

void read_rotary_family(const Fields& fields, const RotaryDefaults& defaults, ModelConfig& model) {
  model.layers = fields.count("num_hidden_layers", {}, kGreatestLayers);
  model.d_model = fields.count("hidden_size");
  model.heads = fields.count("num_attention_heads");
  model.kv_heads = fields.count("num_key_value_heads", model.heads);
  model.head_dim = fields.count("head_dim", 0);
  model.d_ff = fields.count("intermediate_size");
  model.vocab_size = fields.count("vocab_size");
  model.seq_len = fields.count("max_position_embeddings", defaults.seq_len);
  const std::string activation = fields.word("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw Unsupported{"hidden_act = \"" + activation + "\"; silu is supported"};
  }
  model.activation = ActivationChoice::Swiglu;
  model.bias = false;
  model.tied_head = fields.flag("tie_word_embeddings", false);
  model.norm_eps = fields.number("rms_norm_eps", defaults.norm_eps);
  read_rope(fields, defaults.rope_theta, model);
}

void read_llama(const Fields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {}, model);
  fields.refuse_flag("attention_bias", true, "a Llama with biases");
  fields.refuse_flag("mlp_bias", true, "a Llama with biases");
  if (fields.number("pretraining_tp", 1.0) != 1.0) {
    throw Unsupported{"pretraining_tp other than 1 is not supported"};
  }
}

// Mixtral's router takes the best of a softmax and divides them by their sum, as ours does.
void read_mixtral(const Fields& fields, ModelConfig& model) {
  model.family = ModelFamily::Moe;
  read_rotary_family(fields, {.seq_len = 131072, .rope_theta = 1e6, .norm_eps = 1e-5}, model);
  model.experts = fields.count("num_local_experts", 8);
  model.top_k = fields.count("num_experts_per_tok", 2);
  if (model.experts * model.layers > kMostForeignExperts) {
    throw FieldError{
        fmt::format("num_local_experts = {} in {} layers", model.experts, model.layers)};
  }
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  const int64_t window = fields.count("sliding_window", 0);
  if (window > 0 && window < model.seq_len) {
    throw Unsupported{
        fmt::format("sliding_window = {}: attention to a window is not supported", window)};
  }
}

std::optional<DType> read_dtype(const Fields& fields) {
  const std::string name = fields.word("dtype", fields.word("torch_dtype", ""));
  if (name == "float32") return DType::F32;
  if (name == "float16") return DType::F16;
  if (name == "bfloat16") return DType::BF16;
  return std::nullopt;
}

std::optional<int64_t> read_end_of_text(const Fields& fields) {
  const json* eos = fields.find("eos_token_id");
  if (eos != nullptr && eos->is_array()) eos = eos->empty() ? nullptr : &eos->front();
  if (eos == nullptr) return std::nullopt;
  if (!eos->is_number_unsigned() || eos->get<uint64_t>() > uint64_t(kGreatestWidth)) {
    throw FieldError{"eos_token_id: neither a token nor a list of tokens"};
  }
  return static_cast<int64_t>(eos->get<uint64_t>());
}

HuggingFaceConfig read_config(const json& object) {
  const Fields fields(object);
  HuggingFaceConfig config;
  const std::string type = fields.word("model_type", "");
  if (type == "gpt2") {
    read_gpt2(fields, config.model);
  } else if (type == "llama") {
    read_llama(fields, config.model);
  } else if (type == "mixtral") {
    read_mixtral(fields, config.model);
  } else if (type.empty()) {
    throw FieldError{"no key \"model_type\""};
  } else {
    throw Unsupported{"model_type = \"" + type + "\"; gpt2, llama and mixtral are supported"};
  }
  if (fields.find("quantization_config") != nullptr) {
    throw Unsupported{
        "quantization_config: quantised weights are not supported; export the model in float16 or "
        "bfloat16"};
  }
  const ModelConfig& model = config.model;
  if (!(model.norm_eps > 0.0 && model.norm_eps < 1.0)) {
    throw FieldError{fmt::format("the epsilon of the norms is {}", model.norm_eps)};
  }
  if (model.heads > kGreatestWidth / std::max<int64_t>(1, model.head_dim)) {
    throw FieldError{"heads times head_dim is too large"};
  }
  config.dtype = read_dtype(fields);
  config.end_of_text = read_end_of_text(fields);
  return config;
}

}  // namespace

Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text) {
  try {
    HuggingFaceConfig config = read_config(strict_json::parse(text, 32));
    if (auto model = resolve_model(config.model, 0); !model.ok()) {
      return Error{ErrorKind::Damaged, "config.json: " + model.error().message};
    }
    return config;
  } catch (const FieldError& failure) {
    return Error{ErrorKind::Damaged, "config.json: " + failure.message};
  } catch (const Unsupported& reason) {
    return Error{ErrorKind::Infeasible, "config.json: " + reason.message};
  }
}

}  // namespace trireme
