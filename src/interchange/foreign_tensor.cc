#include "interchange/foreign_tensor.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

// Legend: R rows and C columns of the tensor in our layout.
int64_t row_in_file(const ForeignTensor& tensor, int64_t row) {
  if (tensor.interleaved_head_dim == 0) return row;
  const int64_t all = tensor.interleaved_head_dim;
  const int64_t D = tensor.interleaved_last > 0 ? tensor.interleaved_last : all;
  const int64_t place = row % all - (all - D);  // among those that are interleaved
  if (place < 0) return row;
  return row - place + 2 * (place % (D / 2)) + place / (D / 2);
}

// Returns the place of a row of a parameter among the rows of all parameters, if the rows of one
// head lie together. `before`: rows of the parameters before this one; `rows`: of this one; `all`:
// of all.
int64_t row_of_heads(const ForeignTensor& tensor, int64_t row, int64_t before, int64_t rows,
                     int64_t all) {
  if (tensor.heads == 0) return before + row;
  const int64_t own = rows / tensor.heads;
  return row / own * (all / tensor.heads) + before / tensor.heads + row % own;
}

// for_each_run for parameters that stand side by side: a run is a row of one of them.
template <typename Visit>
void for_each_row_side_by_side(const ForeignTensor& tensor, const Weights& weights, Visit&& visit) {
  const int64_t rows = tensor.shape[0], all_cols = tensor.shape[1];
  int64_t first_col = 0;
  for (const std::string& name : tensor.params) {
    const std::span<float> param = weights.at(name);
    const int64_t cols = static_cast<int64_t>(param.size()) / rows;
    for (int64_t row = 0; row < rows; ++row) {
      visit(param, row * cols, row * all_cols + first_col, cols);
    }
    first_col += cols;
  }
  TRIREME_CHECK(first_col == all_cols, "parameters do not fill the rows of " + tensor.name);
}

// for_each_run for one parameter whose heads are transposed: a run is an element.
template <typename Visit>
void for_each_transposed_head(const ForeignTensor& tensor, const Weights& weights, Visit&& visit) {
  const int64_t C = tensor.shape[1], D = tensor.shape[2];  // [heads, columns, rows of a head]
  const std::span<float> param = weights.at(tensor.params.front());
  TRIREME_CHECK(int64_t(param.size()) == tensor.shape.num_elements(),
                tensor.params.front() + " does not fit into " + tensor.name);
  for (int64_t head = 0; head < tensor.heads; ++head) {
    for (int64_t col = 0; col < C; ++col) {
      for (int64_t row = 0; row < D; ++row) {
        visit(param, (head * D + row) * C + col, (head * C + col) * D + row, 1);
      }
    }
  }
}

// Calls visit(parameter, element of the parameter, element of the file, count) for all elements
// that have a parameter, in runs that are contiguous in the file.
template <typename Visit>
void for_each_run(const ForeignTensor& tensor, const Weights& weights, Visit&& visit) {
  if (tensor.side_by_side) return for_each_row_side_by_side(tensor, weights, visit);
  if (tensor.transposed_heads) return for_each_transposed_head(tensor, weights, visit);
  constexpr int64_t kBlockRows = 16;  // a cache line of the file if it is transposed
  const int last = tensor.shape.rank() - 1;
  const int64_t C = last == 0 ? 1 : tensor.shape[tensor.transposed ? 0 : last];
  const int64_t R = tensor.shape.num_elements() / C;  // rows of all stacked matrices
  int64_t first_row = 0;
  for (const std::string& name : tensor.params) {
    const std::span<float> param = weights.at(name);
    const int64_t rows = static_cast<int64_t>(param.size()) / C;
    TRIREME_CHECK(first_row + rows <= R && rows * C == static_cast<int64_t>(param.size()),
                  name + " does not fit into " + tensor.name);
    if (!tensor.transposed) {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t place = row_of_heads(tensor, row, first_row, rows, R);
        visit(param, row * C, row_in_file(tensor, place) * C, C);
      }
    } else {
      for (int64_t block = 0; block < rows; block += kBlockRows) {
        const int64_t block_end = std::min(rows, block + kBlockRows);
        for (int64_t col = 0; col < C; ++col) {
          for (int64_t row = block; row < block_end; ++row) {
            visit(param, row * C + col, col * R + row_in_file(tensor, first_row + row), 1);
          }
        }
      }
    }
    first_row += rows;
  }
}

}  // namespace

void gather(const ForeignTensor& tensor, const Weights& weights, std::span<float> out) {
  TRIREME_CHECK(static_cast<int64_t>(out.size()) == tensor.shape.num_elements(),
                "no room for " + tensor.name);
  std::fill(out.begin(), out.end(), tensor.fill);
  for_each_run(tensor, weights,
               [&](std::span<float> param, int64_t ours, int64_t theirs, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) {
                   out[size_t(theirs + i)] = param[size_t(ours + i)] / tensor.scale;
                 }
               });
}

void scatter(const ForeignTensor& tensor, std::span<const float> elements, const Weights& weights) {
  TRIREME_CHECK(static_cast<int64_t>(elements.size()) == tensor.shape.num_elements(),
                "not the elements of " + tensor.name);
  for_each_run(tensor, weights,
               [&](std::span<float> param, int64_t ours, int64_t theirs, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) {
                   param[size_t(ours + i)] = elements[size_t(theirs + i)] * tensor.scale;
                 }
               });
}

}  // namespace trireme
