#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/stochastic_rounding.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// Writes fp32, or bf16 rounded by 16 random bits.
void write_rounded(const TensorRef& x_N, int64_t i, double value, uint32_t random) {
  if (x_N.dtype == DType::BF16) {
    static_cast<bf16*>(x_N.data)[i] = round_stochastically(float(value), random);
  } else {
    write(x_N, i, value);
  }
}

void copy_and_hash(const TensorRef& x_N, const HashedWrite& copy) {
  const auto* bytes = static_cast<const std::byte*>(x_N.data);
  if (x_N.data != copy.to) std::memcpy(copy.to, bytes, size_t(x_N.bytes()));
  for (int64_t at = 0; at < x_N.bytes(); at += kHashBlockBytes) copy.hash->add(bytes + at);
}

uint32_t word_of(const RoundingWords& rounding, int64_t i) {
  return rounding_word(rounding.key, rounding.update,
                       uint64_t(rounding.box.in_whole(rounding.first + i)));
}

}  // namespace

void squared_norm_ref(Stream&, const SquaredNormArgs& args) {
  check_squared_norm(args);
  const int64_t n = args.grad_N.num_elements();
  for (int64_t chunk = 0; chunk < args.partials_P.num_elements(); ++chunk) {
    double sum = 0.0;
    for (int64_t i = chunk * kNormChunk; i < std::min(n, (chunk + 1) * kNormChunk); ++i) {
      sum += read(args.grad_N, i) * read(args.grad_N, i);
    }
    write(args.partials_P, chunk, sum);
  }
}

void exact_squared_norm_ref(Stream&, const ExactSquaredNormArgs& args) {
  check_exact_squared_norm(args);
  const std::span<int64_t, kExactNormWords> words(static_cast<int64_t*>(args.words_W.data),
                                                  kExactNormWords);
  for (int64_t i = 0; i < args.grad_N.num_elements(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(float(read(args.grad_N, i)));
    const int exponent = int(bits >> 23 & 0xFF);
    const uint64_t significand = (bits & 0x7FFFFF) | (exponent > 0 ? 0x800000 : 0);
    add_squares(significand * significand, std::max(exponent, 1), words);
  }
}

void adamw_ref(Stream&, const AdamWArgs& args) {
  check_adamw(args);
  const int64_t n = args.grad_N.num_elements();
  const StateCopies& copies = args.copies;
  const auto target = [&](const TensorRef& x_N, const HashedWrite& copy, bool is_kept) {
    return copies && !is_kept ? TensorRef{copy.to, x_N.dtype, x_N.shape} : x_N;
  };
  const TensorRef master_N = target(args.master_N, copies.master, copies.keeps_master);
  const TensorRef exp_avg_N = target(args.exp_avg_N, copies.exp_avg, copies.keeps_moments);
  const TensorRef exp_avg_sq_N = target(args.exp_avg_sq_N, copies.exp_avg_sq, copies.keeps_moments);
  for (int64_t i = 0; i < n; ++i) {
    const double g = read(args.grad_N, i) * args.grad_scale;
    const double m = args.beta1 * read(args.exp_avg_N, i) + (1.0 - args.beta1) * g;
    const double v = args.beta2 * read(args.exp_avg_sq_N, i) + (1.0 - args.beta2) * g * g;
    const double w = read(args.master_N, i);
    const double step = m / args.correction1 / (std::sqrt(v / args.correction2) + args.eps);
    const uint32_t word = word_of(args.rounding, i);
    write_rounded(exp_avg_N, i, m, word & 0xffff);
    write_rounded(exp_avg_sq_N, i, v, word >> 16);
    write_rounded(master_N, i, w - args.lr * (step + args.weight_decay * w), word & 0xffff);
    if (args.param_N) write(args.param_N, i, read(master_N, i));
  }
  if (!copies) return;
  copy_and_hash(master_N, copies.master);
  copy_and_hash(exp_avg_N, copies.exp_avg);
  copy_and_hash(exp_avg_sq_N, copies.exp_avg_sq);
}

void momentum_ref(Stream&, const MomentumArgs& args) {
  check_momentum(args);
  for (int64_t i = 0; i < args.grad_N.num_elements(); ++i) {
    const double g = read(args.grad_N, i) * args.grad_scale;
    const double u = args.momentum * read(args.momentum_N, i) + g;
    write_rounded(args.momentum_N, i, u, word_of(args.rounding, i) >> 16);
    write(args.update_N, i, args.momentum * u + g);
  }
}

void weighted_sum_ref(Stream&, const WeightedSumArgs& args) {
  check_weighted_sum(args);
  for (int64_t row = 0; row < args.a_MN.rows; ++row) {
    for (int64_t col = 0; col < args.a_MN.cols; ++col) {
      double sum = args.a_factor * read(args.a_MN, row, col);
      if (args.b_MN) sum += args.b_factor * read(args.b_MN, row, col);
      if (row == col) sum += args.diagonal;
      write(args.out_MN, row, col, sum);
    }
  }
}

void sgd_ref(Stream&, const SgdArgs& args) {
  check_sgd(args);
  for (int64_t i = 0; i < args.grad_N.num_elements(); ++i) {
    const double w = read(args.master_N, i);
    const uint32_t word = word_of(args.rounding, i);
    double u = read(args.grad_N, i) * args.grad_scale + args.weight_decay * w;
    if (args.momentum_N) {
      u += args.momentum * read(args.momentum_N, i);
      write_rounded(args.momentum_N, i, u, word >> 16);
    }
    write_rounded(args.master_N, i, w - args.lr * u, word & 0xffff);
    if (args.param_N) write(args.param_N, i, read(args.master_N, i));
  }
}

}  // namespace trireme
