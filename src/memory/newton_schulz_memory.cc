#include "memory/newton_schulz_memory.h"

#include <algorithm>
#include <numeric>

#include "base/align.h"
#include "schema/newton_schulz.h"
#include "schema/norm_chunk.h"

namespace trireme {

NewtonSchulzMemory newton_schulz_memory(const WholeMatrix& matrix, DType compute) {
  NewtonSchulzMemory memory;
  memory.dtype = compute == DType::BF16 ? DType::BF16 : DType::F32;
  memory.side = std::min(matrix.rows, matrix.cols);
  const auto place = [&](int64_t& at, int64_t elements, DType dtype) {
    at = memory.bytes;
    memory.bytes += aligned_bytes(elements * size_of(dtype));
  };
  const int64_t elements = matrix.rows * matrix.cols;
  place(memory.x, elements, memory.dtype);
  place(memory.next, elements, memory.dtype);
  place(memory.gram, memory.side * memory.side, memory.dtype);
  place(memory.square, memory.side * memory.side, memory.dtype);
  place(memory.partials, num_norm_chunks(elements), DType::F64);
  return memory;
}

int64_t newton_schulz_bytes(const ChunkTables& chunk) {
  int64_t bytes = 0;
  for (const OwnedParam& owned : chunk.owned) {
    if (!owned.takes_muon) continue;
    const DType compute = chunk.tables.params.tensors().front().dtype;
    bytes = std::max(bytes, newton_schulz_memory(chunk.matrices[owned.param], compute).bytes);
  }
  return bytes;
}

std::vector<ProductExtents> newton_schulz_products(int64_t rows, int64_t cols) {
  const int64_t side = std::min(rows, cols), length = std::max(rows, cols);
  const int64_t times = NewtonSchulz::kIterations;
  return {{side, side, length, times}, {side, side, side, times}, {side, length, side, times}};
}

}  // namespace trireme
