#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/op_tensors.h"

namespace trireme {

// Tensors of ops on images.

// The blocks of rows whose sums a batch norm joins: the images of its batch, or, where the tp ranks
// share out the rows of images, what each rank has of each image, in the order of the ranks.
struct BatchNormBlocks {
  int64_t all = 0;          // of the batch
  int64_t of_tp = 0;        // of the tp ranks together: of their micro-batch
  int64_t own = 0;          // of this rank
  int64_t own_rows = 0;     // of each of these
  int64_t rows = 0;         // of each block of all ranks
  int64_t taller = 0;       // the first blocks, which have
  int64_t taller_rows = 0;  // so many rows instead
  std::string part_name;    // of the scratch that has the sums of this rank's own blocks
  std::string of_tp_name;   // of the scratch that has those of the tp ranks together
  std::string sums_name;    // of the sums of the backward pass
};
BatchNormBlocks batch_norm_blocks(const Graph& graph, const Op& op, const TokenCounts& images,
                                  int batch_ranks);

// The shape [images, rows, numbers of a row] of a redistributed value of images, of all ranks.
Shape whole_images(const Value& value, int64_t images);
// The scratch with which such a value is redistributed there and back; it has so many bytes. They
// are those of the rank that needs most.
std::string image_scratch_name(int64_t bytes);
int64_t image_scratch_bytes(const Graph& graph, const Op& op, const TokenCounts& images,
                            DType dtype);

}  // namespace trireme
