#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "edits.h"
#include "scratch_folder.h"
#include "small_models.h"

namespace {

using namespace trireme;

struct SoundModels {
  ScratchFolder root{"import_fuzz"};
  std::vector<ForeignFiles> models = write_small_models(root.path());
};

}  // namespace

// Imports a damaged model of another program: it is refused with a reason, or its tokenizer encodes
// and its weights have the shapes of its configuration.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SoundModels sound;
  Edits edits(data, size);
  const ForeignFiles& foreign = sound.models[edits.byte() % sound.models.size()];
  auto files = foreign.files;
  while (!edits.done()) edits.apply_one(files[edits.byte() % files.size()].second);
  for (const auto& [path, content] : files) write_plainly(path, content);

  const auto model = read_foreign_model(foreign.path);
  if (!model.ok()) {
    if (model.error().message.empty()) std::abort();
    return 0;
  }
  if (!resolve_model(model->config, 0).ok()) std::abort();
  for (const ParamSpec& param : model->weights.params()) {
    if (model->weights.at(param.name).empty()) std::abort();
  }
  if (model->tokenizer != nullptr) {
    const std::string text = "abcd efgh";
    const auto tokens = model->tokenizer->encode(text);
    if (tokens.ok() && model->tokenizer->decode(*tokens) != text) std::abort();
  }
  return 0;
}
