#include "interchange/hugging_face_config.h"

#include <fmt/format.h>

#include "base/input_limits.h"
#include "interchange/hugging_face_families.h"
#include "interchange/hugging_face_fields.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr int64_t kGreatestWidth = limits::kWidth;

constexpr HuggingFaceFamily kFamilies[] = {
    {ForeignFamily::Gpt2, "gpt2", "GPT2LMHeadModel"},
    {ForeignFamily::Llama, "llama", "LlamaForCausalLM"},
    {ForeignFamily::Arcee, "arcee", "ArceeForCausalLM"},
    {ForeignFamily::Cohere, "cohere", "CohereForCausalLM"},
    {ForeignFamily::Mixtral, "mixtral", "MixtralForCausalLM"},
    {ForeignFamily::Deepseek, "deepseek", "DeepseekForCausalLM"},
    {ForeignFamily::Ernie, "ernie4_5_moe", "Ernie4_5_MoeForCausalLM"},
    {ForeignFamily::Qwen3, "qwen3", "Qwen3ForCausalLM"},
    {ForeignFamily::Qwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {ForeignFamily::Mistral, "mistral", "MistralForCausalLM"},
    {ForeignFamily::DeepseekV3, "deepseek_v3", "DeepseekV3ForCausalLM"}};

ForeignFamily family_of_type(const std::string& type) {
  if (type.empty()) throw FieldError{"no key \"model_type\""};
  if (type == "kimi_k2") return ForeignFamily::DeepseekV3;  // its model under another name
  if (has_foreign_indexer(type)) return ForeignFamily::DeepseekV3;
  std::vector<std::string_view> types;
  for (const HuggingFaceFamily& known : kFamilies) {
    if (known.type == type) return known.family;
    types.push_back(known.type);
  }
  if (type == "nemotron") {
    throw UnsupportedSetting{
        "model_type = \"nemotron\": rotary positions that turn a part of a head "
        "(partial_rotary_factor) are not supported, nor norms with biases beside products without "
        "them"};
  }
  throw UnsupportedSetting{
      fmt::format("model_type = \"{}\"; supported are {}", type, fmt::join(types, ", "))};
}

std::optional<DType> read_dtype(const HuggingFaceFields& fields) {
  const std::string name = fields.word("dtype", fields.word("torch_dtype", ""));
  if (name == "float32") return DType::F32;
  if (name == "float16") return DType::F16;
  if (name == "bfloat16") return DType::BF16;
  return std::nullopt;
}

std::optional<int64_t> read_end_of_text(const HuggingFaceFields& fields) {
  const json* eos = fields.find("eos_token_id");
  if (eos != nullptr && eos->is_array()) eos = eos->empty() ? nullptr : &eos->front();
  if (eos == nullptr) return std::nullopt;
  if (!eos->is_number_unsigned() || eos->get<uint64_t>() > uint64_t(kGreatestWidth)) {
    throw FieldError{"eos_token_id: neither a token nor a list of tokens"};
  }
  return static_cast<int64_t>(eos->get<uint64_t>());
}

void read_family(const HuggingFaceFields& fields, HuggingFaceConfig& config) {
  switch (config.family) {
    case ForeignFamily::Gpt2:
      return read_gpt2(fields, config.model);
    case ForeignFamily::Llama:
      return read_llama(fields, config.model);
    case ForeignFamily::Arcee:
      return read_arcee(fields, config.model);
    case ForeignFamily::Cohere:
      return read_cohere(fields, config);
    case ForeignFamily::Mixtral:
      return read_mixtral(fields, config.model);
    case ForeignFamily::Deepseek:
      return read_deepseek(fields, config.model);
    case ForeignFamily::Ernie:
      return read_ernie(fields, config.model);
    case ForeignFamily::Qwen3:
      return read_qwen3(fields, config.model);
    case ForeignFamily::Qwen3Moe:
      return read_qwen3_moe(fields, config.model);
    case ForeignFamily::Mistral:
      return read_mistral(fields, config.model);
    case ForeignFamily::DeepseekV3:
      return read_deepseek_v3(fields, config.model);
  }
}

HuggingFaceConfig read_config(const json& object) {
  const HuggingFaceFields fields(object);
  HuggingFaceConfig config;
  config.family = family_of_type(fields.word("model_type", ""));
  read_family(fields, config);
  if (fields.find("quantization_config") != nullptr) {
    throw UnsupportedSetting{
        "quantization_config: quantised weights are not supported; export the model in float16 or "
        "bfloat16"};
  }
  const ModelConfig& model = config.model;
  if (!(model.norm_eps > 0.0 && model.norm_eps < 1.0)) {
    throw FieldError{fmt::format("the epsilon of the norms is {}", model.norm_eps)};
  }
  if (model.experts * model.layers > kMostForeignExperts) {
    throw FieldError{fmt::format("{} experts in {} layers", model.experts, model.layers)};
  }
  if (model.heads > kGreatestWidth / std::max<int64_t>(1, model.head_dim)) {
    throw FieldError{"heads times head_dim is too large"};
  }
  config.dtype = read_dtype(fields);
  config.end_of_text = read_end_of_text(fields);
  return config;
}

}  // namespace

std::span<const HuggingFaceFamily> hugging_face_families() { return kFamilies; }

Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text) {
  try {
    HuggingFaceConfig config = read_config(strict_json::parse(text, 32));
    if (auto model = resolve_model(config.model, 0); !model.ok()) {
      return Error{ErrorKind::Damaged, "config.json: " + model.error().message};
    }
    return config;
  } catch (const FieldError& failure) {
    return Error{ErrorKind::Damaged, "config.json: " + failure.message};
  } catch (const UnsupportedSetting& reason) {
    return Error{ErrorKind::Infeasible, "config.json: " + reason.message};
  }
}

}  // namespace trireme
