#include "chaos/same_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/load.h"

namespace trireme {
namespace {

Result<std::vector<std::byte>> read_whole(const Checkpoint& checkpoint, const std::string& name,
                                          const StoredTensor& tensor) {
  std::vector<std::byte> bytes(size_t(tensor.shape.num_elements()) * size_t(size_of(tensor.dtype)));
  const TensorRequest request{.name = name,
                              .full_shape = tensor.shape,
                              .dtype = tensor.dtype,
                              .slice = Slice::whole(tensor.shape),
                              .out = bytes.data()};
  TRIREME_TRY_DONE(checkpoint.read({&request, 1}, {.allow_nonfinite = true}));
  return bytes;
}

// Returns "" or the first difference.
Result<std::string> first_difference(const Checkpoint& a, const Checkpoint& b) {
  const auto& tensors = a.index().contents.tensors;
  if (tensors.size() != b.index().contents.tensors.size()) {
    return std::string("they have different numbers of tensors");
  }
  for (const auto& [name, tensor] : tensors) {
    const StoredTensor* const other = b.find(name);
    if (other == nullptr || other->dtype != tensor.dtype || !(other->shape == tensor.shape)) {
      return fmt::format("{} is missing or has another shape", name);
    }
    TRIREME_TRY(bytes, read_whole(a, name, tensor));
    TRIREME_TRY(other_bytes, read_whole(b, name, *other));
    if (bytes == other_bytes) continue;
    const auto at = std::mismatch(bytes.begin(), bytes.end(), other_bytes.begin()).first;
    return fmt::format("{} differs in element {}", name,
                       (at - bytes.begin()) / int64_t(size_of(tensor.dtype)));
  }
  return std::string();
}

}  // namespace

void compare_steps(const RunLog& oracle, const RunLog& disturbed, Comparison& comparison) {
  comparison.steps = int64_t(oracle.steps.size());
  const auto note = [](std::string& first, const std::string& text) {
    if (first.empty()) first = text;
  };
  const size_t common = std::min(oracle.steps.size(), disturbed.steps.size());
  for (size_t i = 0; i < common; ++i) {
    const RunLog::Step &a = oracle.steps[i], &b = disturbed.steps[i];
    if (a.step != b.step) {
      note(comparison.losses, fmt::format("step {} stands where step {} belongs", b.step, a.step));
      return;
    }
    if (a.loss != b.loss) {
      note(comparison.losses, fmt::format("step {}: {} instead of {}", a.step, b.loss, a.loss));
    }
    if (a.grad_norm != b.grad_norm) {
      note(comparison.norms,
           fmt::format("step {}: {} instead of {}", a.step, b.grad_norm, a.grad_norm));
    }
  }
  if (oracle.steps.size() == disturbed.steps.size() && common > 0) return;
  note(comparison.losses, fmt::format("there are {} steps instead of {}", disturbed.steps.size(),
                                      oracle.steps.size()));
}

std::string compare_checkpoints(const std::string& oracle, const std::string& disturbed) {
  const Result<Checkpoint> a = Checkpoint::open(oracle), b = Checkpoint::open(disturbed);
  if (!a.ok()) return a.error().message;
  if (!b.ok()) return b.error().message;
  const Result<std::string> difference = first_difference(*a, *b);
  return difference.ok() ? *difference : difference.error().message;
}

}  // namespace trireme
