#pragma once

#include <array>

#include "memory/unit_memory.h"
#include "tensor/matrix.h"

namespace trireme {

// The pieces of a stage's memory of which there are several: one for each micro-batch under way, or
// for each sum of gradients. Scratch is one of them because it is found the same way.
enum class Base : uint8_t { None, Saved, WeightGrad, Scratch, Grads, TiedGrads };
inline constexpr int kNumBases = int(Base::TiedGrads) + 1;

// A matrix or tensor at a fixed place in such a piece. Without a base it is absent.
struct MatrixAt {
  Base base = Base::None;
  DType dtype = DType::F32;
  int64_t offset = 0;  // bytes
  int64_t rows = 0, cols = 0, stride = 0;
  bool is_by_token = false;   // its rows are tokens
  bool is_by_sample = false;  // every sample has equally many of its rows
  explicit operator bool() const { return base != Base::None; }
};
struct TensorAt {
  Base base = Base::None;
  DType dtype = DType::F32;
  int64_t offset = 0;
  Shape shape;
  bool is_by_token = false;  // one number of every token
  explicit operator bool() const { return base != Base::None; }
};

// One of the equal parts of the samples of a micro-batch whose gradients are summed on their own
// (StageShape::leaves).
struct Leaf {
  int64_t index = 0;
  int64_t count = 1;
};

// The pieces that one call works on. Bodies of ops are bound to places once; a call turns them into
// pointers.
struct SlotMemory {
  std::array<char*, kNumBases> bases = {};
  int64_t tokens = -1;  // fewer than there is room for: so many are computed (generation)
  Leaf leaf = {};       // the samples that W reads

  MatrixRef operator()(const MatrixAt& at) const {
    if (!at) return {};
    int64_t rows = at.is_by_token && tokens >= 0 ? tokens : at.rows;
    if (at.is_by_sample) rows /= leaf.count;
    const int64_t first = at.is_by_sample ? leaf.index * rows : 0;
    char* data = bases[size_t(at.base)] + at.offset + first * at.stride * size_of(at.dtype);
    return {data, at.dtype, rows, at.cols, at.stride};
  }
  TensorRef operator()(const TensorAt& at) const {
    if (!at) return {};
    TensorRef tensor{bases[size_t(at.base)] + at.offset, at.dtype, at.shape};
    if (!at.is_by_token) return tensor;
    const int64_t count = (tokens >= 0 ? tokens : at.shape[0]) / leaf.count;
    tensor.data = static_cast<char*>(tensor.data) + leaf.index * count * size_of(at.dtype);
    tensor.shape = Shape{count};
    return tensor;
  }
};

}  // namespace trireme
