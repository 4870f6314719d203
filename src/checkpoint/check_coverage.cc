#include "checkpoint/check_coverage.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/input_limits.h"

namespace trireme {
namespace {

// `pairs_left` is the number of comparisons that are still allowed, for all tensors together.
Status check_tensor_coverage(const std::string& name, const StoredTensor& tensor,
                             int64_t& pairs_left) {
  struct Hull {
    const Slice* slice;
    int64_t first, end;  // in the flattened tensor
  };
  std::vector<Hull> hulls;
  int64_t missing = tensor.shape.num_elements();
  for (const StoredSlice& stored : tensor.slices) {
    const SliceRuns runs(stored.slice, tensor.shape);
    if (runs.num_elements() == 0) continue;
    hulls.push_back({&stored.slice, runs.first_of(0), runs.flat_of(runs.num_elements() - 1) + 1});
    if (runs.num_elements() > missing) return damaged("tensor " + name + ": its slices overlap");
    missing -= runs.num_elements();
  }
  if (missing != 0) {
    return damaged(fmt::format("tensor {}: {} of its {} elements are in no slice", name, missing,
                               tensor.shape.num_elements()));
  }
  // Slices whose hulls are apart cannot overlap, so of many slices only neighbours are compared.
  std::sort(hulls.begin(), hulls.end(),
            [](const Hull& a, const Hull& b) { return a.first < b.first; });
  for (size_t a = 0; a < hulls.size(); ++a) {
    for (size_t b = a + 1; b < hulls.size() && hulls[b].first < hulls[a].end; ++b) {
      if (--pairs_left < 0) {
        return damaged("tensor " + name + ": cut into more slices than can be compared");
      }
      if (overlap(*hulls[a].slice, *hulls[b].slice, tensor.shape)) {
        return damaged(fmt::format("tensor {}: its slices {} and {} overlap", name,
                                   hulls[a].slice->to_string(), hulls[b].slice->to_string()));
      }
    }
  }
  return Done{};
}

}  // namespace

Status check_coverage(const IndexPart& contents) {
  int64_t pairs_left = limits::kSlicePairs;
  for (const auto& [name, tensor] : contents.tensors) {
    TRIREME_TRY_DONE(check_tensor_coverage(name, tensor, pairs_left));
  }
  return Done{};
}

}  // namespace trireme
