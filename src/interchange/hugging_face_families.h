#pragma once

#include "interchange/hugging_face_config.h"
#include "interchange/hugging_face_fields.h"

namespace trireme {

// Each function reads the config.json of one family; keys that are absent have the defaults of the
// library. They throw FieldError and UnsupportedSetting.

// Families without experts.
void read_gpt2(const HuggingFaceFields& fields, ModelConfig& model);
void read_llama(const HuggingFaceFields& fields, ModelConfig& model);
void read_mistral(const HuggingFaceFields& fields, ModelConfig& model);
void read_qwen3(const HuggingFaceFields& fields, ModelConfig& model);
void read_arcee(const HuggingFaceFields& fields, ModelConfig& model);
void read_cohere(const HuggingFaceFields& fields, HuggingFaceConfig& config);

// True for the types of DeepSeek-V3.2 and GLM-5: a DeepSeek-V3 in which an indexer chooses keys.
bool has_foreign_indexer(std::string_view type);

// Families with experts.
void read_mixtral(const HuggingFaceFields& fields, ModelConfig& model);
void read_qwen3_moe(const HuggingFaceFields& fields, ModelConfig& model);
void read_deepseek(const HuggingFaceFields& fields, ModelConfig& model);
void read_ernie(const HuggingFaceFields& fields, ModelConfig& model);
void read_deepseek_v3(const HuggingFaceFields& fields, ModelConfig& model);

}  // namespace trireme
