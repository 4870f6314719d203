#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "edits.h"
#include "scratch_folder.h"
#include "small_models.h"

namespace {

using namespace trireme;

// Two checkpoints. The files of the newer one are kept as they were written.
struct SoundRun {
  ScratchFolder root{"resume_fuzz"};
  std::string older = save_small_checkpoint(root.path(), 1);
  std::string newer = save_small_checkpoint(root.path(), 2);
  std::vector<std::pair<std::string, std::string>> files;

  SoundRun() {
    for (const auto& entry : std::filesystem::directory_iterator(newer)) {
      files.emplace_back(entry.path().string(), read_plainly(entry.path().string()));
    }
    std::sort(files.begin(), files.end());
  }
};

// Returns the index with a correct checksum of its text, so that the fuzzer gets past the check.
std::string sealed(const std::string& text) {
  const std::string key = ",\n\"checksum\":\"";
  const std::string body = text.substr(0, text.rfind(key));
  return body + key + hex64(hash64(body)) + "\"}\n";
}

// Reads the tensor of a checkpoint that opens. Returns false if it cannot be read.
bool read_weights(const std::string& folder, std::vector<float>& values) {
  const auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) {
    if (checkpoint.error().message.empty()) std::abort();
    return false;
  }
  const auto problems = checkpoint->verify(1);
  (void)checkpoint->read_attached("config.resolved.toml");
  const std::vector<TensorRequest> requests = {
      {"layers.0.attn.wq", Shape{3, 4}, DType::F32, Slice::whole(Shape{3, 4}), values.data()}};
  const Status read = checkpoint->read(requests);
  if (!read.ok() && read.error().message.empty()) std::abort();
  return read.ok();
}

}  // namespace

// A run folder whose newest checkpoint was damaged: resuming finds a checkpoint that can be read.
// If its checksums were not corrected it has the bits that were saved.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SoundRun run;
  Edits edits(data, size);
  const bool seals = edits.byte() % 2 == 1;
  auto files = run.files;
  while (!edits.done()) edits.apply_one(files[edits.byte() % files.size()].second);
  for (auto& [path, content] : files) {
    write_plainly(path, seals && path.ends_with("index.json") ? sealed(content) : content);
  }
  const auto latest = find_latest_checkpoint(run.root.path());
  if (!latest.ok() || (latest->path != run.older && latest->path != run.newer)) std::abort();
  std::vector<float> values(12, NAN);
  const bool read = read_weights(run.newer, values);
  std::vector<float> sound(12);
  if (!read_weights(run.older, sound)) std::abort();
  if (!read || seals) return 0;
  const std::vector<float> saved = small_values(2);
  std::vector<float> order;  // the box of columns 0 and 1, then that of columns 2 and 3
  for (size_t row = 0; row < 3; ++row) {
    for (size_t col = 0; col < 4; ++col) order.push_back(saved[col / 2 * 6 + row * 2 + col % 2]);
  }
  if (std::memcmp(values.data(), order.data(), saved.size() * sizeof(float)) != 0) std::abort();
  return 0;
}
