#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "interchange/weights.h"

namespace trireme {

// A tensor of another program's file in terms of our parameters. A format is a list of these, and
// both its reader and its writer walk that list.
struct ForeignTensor {
  std::string name;
  Shape shape;                      // in the file: a vector, a matrix, or matrices of one size
  std::vector<std::string> params;  // ours, one below the other
  // The file holds the transposed matrix: [in, out] where ours is [out, in].
  bool transposed = false;
  // Not 0: rows are output channels of heads of this width, and the file has the two halves of a
  // head interleaved: its row 2 p + s is our row s D/2 + p. Rotary positions that turn neighbours
  // need this where ours turn halves.
  int64_t interleaved_head_dim = 0;
  // The value where no parameter lies: rows of padding, or a bias or gain that the model lacks.
  float fill = 0.0f;
};

// The tensor's elements in the order of the file; `out` has all of them.
void gather(const ForeignTensor& tensor, const Weights& weights, std::span<float> out);
// The reverse; elements that no parameter covers are left out.
void scatter(const ForeignTensor& tensor, std::span<const float> elements, const Weights& weights);

}  // namespace trireme
