#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "interchange/weights.h"

namespace trireme {

// Maps a tensor of another program's file to our parameters. A format is a list of these, which its
// reader and its writer both walk.
struct ForeignTensor {
  std::string name;
  Shape shape;  // shape in the file: a vector, a matrix, or matrices of one size
  std::vector<std::string> params;  // our parameters, stacked by rows
  // True if the file holds the transposed matrix: [in, out] instead of our [out, in].
  bool transposed = false;
  // If not 0: rows are output channels of heads of this width, and the file interleaves the two
  // halves of a head: its row 2 p + s is our row s D/2 + p. Programs whose rotary positions rotate
  // neighbours need this, because ours rotate halves.
  int64_t interleaved_head_dim = 0;
  // If not 0: only so many last rows of a head are interleaved.
  int64_t interleaved_last = 0;
  // If not 0: the parameters have so many heads each, and in the file the rows of one head follow
  // each other, parameter after parameter.
  int64_t heads = 0;
  // True if the file has the matrix of every head transposed, one head behind the other.
  bool transposed_heads = false;
  // True if the parameters stand side by side: a row of the file has the row of each of them.
  bool side_by_side = false;
  // Our elements are those of the file times this.
  float scale = 1.0f;
  // Value of elements without a parameter: rows of padding, or a bias or gain that the model lacks.
  float fill = 0.0f;
};

// Copies the parameters to the tensor's elements in the order of the file; `out` has room for all
// of them.
void gather(const ForeignTensor& tensor, const Weights& weights, std::span<float> out);
// The reverse of gather. Elements without a parameter are skipped.
void scatter(const ForeignTensor& tensor, std::span<const float> elements, const Weights& weights);

}  // namespace trireme
