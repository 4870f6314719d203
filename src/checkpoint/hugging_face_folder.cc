#include "checkpoint/hugging_face_folder.h"

#include <fmt/format.h>

#include "base/file.h"
#include "checkpoint/hugging_face_config.h"
#include "checkpoint/hugging_face_tensors.h"
#include "checkpoint/hugging_face_weights.h"
#include "checkpoint/whole_folder.h"

namespace trireme {
namespace {

ForeignFamily family_of(const ModelConfig& config) {
  return config.family == ModelFamily::Llama ? ForeignFamily::Llama : ForeignFamily::Gpt2;
}

}  // namespace

Result<InterchangeModel> read_hugging_face(const std::string& folder) {
  TRIREME_TRY(text, read_text_file(folder + "/config.json"));
  auto config = parse_hugging_face_config(text);
  if (!config.ok()) return with_context(config.error(), folder);
  TRIREME_TRY(model, resolve_model(config->model, 0));
  const ForeignFamily family = family_of(config->model);
  const std::vector<ForeignTensor> tensors = hugging_face_tensors(model, family);
  TRIREME_TRY(files, HuggingFaceWeights::open(folder, family));
  TRIREME_TRY_DONE(
      files.check(tensors, model));  // before memory is taken for what config.json says
  InterchangeModel imported{.config = config->model, .weights = Weights(model)};
  TRIREME_TRY_DONE(files.read(tensors, imported.weights));
  imported.dtype = files.dtype();
  return imported;
}

Status write_hugging_face(const InterchangeModel& model, const std::string& folder,
                          const HuggingFaceWriteOptions& options) {
  const ModelSpec& spec = model.weights.model();
  TRIREME_TRY(family, foreign_family(spec));
  HuggingFaceConfigExtras extras{.dtype = options.dtype};
  if (model.tokenizer != nullptr) extras.end_of_text = model.tokenizer->end_of_text();
  TRIREME_TRY(config, print_hugging_face_config(spec, extras));
  const ForeignFamily foreign = family;
  const std::string config_text = config;
  return write_whole_folder(folder, [&](const std::string& temporary) -> Status {
    TRIREME_TRY_DONE(write_file_atomically(temporary + "/config.json", config_text));
    return write_hugging_face_weights(hugging_face_tensors(spec, foreign), model.weights, temporary,
                                      options);
  });
}

}  // namespace trireme
