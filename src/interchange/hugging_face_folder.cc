#include "interchange/hugging_face_folder.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/input_limits.h"
#include "interchange/foreign_family.h"
#include "interchange/hugging_face_config.h"
#include "interchange/hugging_face_tensors.h"
#include "interchange/hugging_face_weights.h"
#include "interchange/print_hugging_face_config.h"
#include "interchange/whole_folder.h"
#include "tokenizer/foreign_tokenizer.h"

namespace trireme {
namespace {

// Without a tokenizer, or with one that we cannot represent, the model is read all the same.
void read_tokenizer(const std::string& folder, InterchangeModel& model) {
  auto tokenizer = load_foreign_tokenizer(folder);
  if (!tokenizer.ok()) {
    model.notes.push_back("no tokenizer: " + tokenizer.error().message);
  } else if ((*tokenizer)->vocab_size() > model.config.vocab_size) {
    model.notes.push_back(fmt::format("no tokenizer: its {} tokens are more than the model's {}",
                                      (*tokenizer)->vocab_size(), model.config.vocab_size));
  } else {
    model.tokenizer = std::move(*tokenizer);
  }
}

// The format has no char tokenizer; reading the folder back finds no tokenizer.
Status write_tokenizer(const InterchangeModel& model, const std::string& folder) {
  if (model.tokenizer == nullptr || model.tokenizer->kind() == "char") return Done{};
  return write_hugging_face_tokenizer(*model.tokenizer, model.weights.model().seq_len, folder);
}

}  // namespace

Result<InterchangeModel> read_hugging_face(const std::string& folder) {
  TRIREME_TRY(text, read_text_file(folder + "/config.json", limits::kSmallFileBytes));
  auto config = parse_hugging_face_config(text);
  if (!config.ok()) return with_context(config.error(), folder);
  if (config->model.index_top_k > 0) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("{}: config.json says index_topk = {}: an indexer chooses the keys "
                             "that every query sees, and no command runs such a model; `trireme "
                             "plan` prices one whose [model] has model.index_top_k",
                             folder, config->model.index_top_k)};
  }
  const ForeignFamily family = config->family;
  TRIREME_TRY(files, HuggingFaceWeights::open(folder, family));
  // When the library saves a model, it leaves out the modules, but config.json keeps their number.
  const std::string module = fmt::format("model.layers.{}.enorm.weight", config->model.layers);
  if (!files.has(module)) config->model.mtp_depth = 0;
  TRIREME_TRY(model, resolve_model(config->model, 0));
  if (model.layers > files.num_tensors()) {  // before a list is made of what config.json claims
    return damaged(fmt::format("{}: config.json says {} layers, but the files have {} tensors",
                               folder, model.layers, files.num_tensors()));
  }
  const bool is_fused = files.has(kFusedExperts);
  const std::vector<ForeignTensor> tensors = hugging_face_tensors(
      model, family,
      {is_fused ? ExpertSpelling::Fused : ExpertSpelling::Separate, config->logit_scale});
  TRIREME_TRY_DONE(
      files.check(tensors, model));  // before memory is allocated for what config.json claims
  InterchangeModel imported{.config = config->model, .weights = Weights(model)};
  TRIREME_TRY_DONE(files.read(tensors, imported.weights));
  imported.dtype = files.dtype();
  read_tokenizer(folder, imported);
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
    TRIREME_TRY_DONE(write_tokenizer(model, temporary));
    return write_hugging_face_weights(hugging_face_tensors(spec, foreign, {.has_copies = true}),
                                      model.weights, temporary, options);
  });
}

}  // namespace trireme
