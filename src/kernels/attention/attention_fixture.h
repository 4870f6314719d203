#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/attention_cases.h"
#include "kernels/kernel_table.h"
#include "kernels/random_matrix.h"
#include "kernels/test_stream.h"

// What the tests of attention share.
namespace trireme {

inline constexpr DType kAttentionDTypes[] = {DType::F32, DType::BF16, DType::F16};

// The matrices of one attention. If q_len equals kv_len, q, k and v are columns of one matrix, as a
// fused projection writes them; otherwise they are separate. NaN surrounds all of them.
struct AttentionOperands {
  AttentionOperands(const AttentionShape& shape, DType dtype, float dropout_probability)
      : shape(shape),
        dropout{dropout_probability, {77}, 5, 2, {3000, 21, 700}, {1000, 13, 500}},
        q_rows(shape.num_sequences * shape.q_len),
        kv_rows(shape.num_sequences * shape.kv_len),
        q_cols(shape.num_heads * shape.head_dim),
        k_cols(shape.num_kv_heads * shape.head_dim),
        v_cols(shape.num_kv_heads * shape.out_dim()),
        out_cols(shape.num_heads * shape.out_dim()),
        qkv(dtype, std::max(q_rows, kv_rows), q_cols + k_cols + v_cols, 3, 1, 1.5f),
        dqkv(dtype, std::max(q_rows, kv_rows), q_cols + k_cols + v_cols, 3, 2),
        out(dtype, q_rows, out_cols, 1, 3),
        dout(dtype, q_rows, out_cols, 2, 4),
        lse(DType::F32, 1, shape.num_heads * q_rows, 0, 5),
        delta(DType::F32, 1, shape.num_heads * q_rows, 0, 6),
        max(size_t(shape.num_heads), -INFINITY) {}

  MatrixRef part(RandomMatrix& x, int index) const {
    const int64_t begins[] = {0, q_cols, q_cols + k_cols}, widths[] = {q_cols, k_cols, v_cols};
    return rows_of(cols_of(x, begins[index], widths[index]), 0, index == 0 ? q_rows : kv_rows);
  }
  AttentionForwardArgs forward() {
    return {shape,        dropout,      part(qkv, 0),
            part(qkv, 1), part(qkv, 2), out,
            lse.row(),    window(),     {max.data(), DType::F32, Shape{int64_t(max.size())}}};
  }
  AttentionBackwardArgs backward() {
    return {shape,     dropout,     part(qkv, 0),  part(qkv, 1),  part(qkv, 2),  out,     dout,
            lse.row(), delta.row(), part(dqkv, 0), part(dqkv, 1), part(dqkv, 2), window()};
  }
  AttentionWindow window() {
    if (first.empty()) return {};
    return {{first.data(), DType::I32, Shape{int64_t(first.size())}}, dropout.keys};
  }
  // first_key(query): the index of the first key that a query sees.
  template <typename FirstKey>
  void set_window(FirstKey first_key) {
    first.clear();
    for (int64_t row = 0; row < q_rows; ++row) {
      const int64_t key = first_key(row % shape.q_len);
      first.push_back(int32_t(key == 0 ? 0 : dropout.keys.of(key - 1) + 1));
    }
  }

  AttentionShape shape;
  AttentionDropout dropout;
  int64_t q_rows, kv_rows, q_cols, k_cols, v_cols, out_cols;
  RandomMatrix qkv, dqkv, out, dout, lse, delta;
  std::vector<float> max;      // [head] the largest logit
  std::vector<int32_t> first;  // empty: no window
};

// Rounding errors are relative to the largest elements of a matrix: bf16 rounds probabilities,
// dscores and the result to 8 bits; fp32 sums a few hundred terms.
inline void expect_near(const RandomMatrix& got, const RandomMatrix& want, DType dtype) {
  float greatest = 0.0f;
  for (int64_t row = 0; row < want.rows(); ++row) {
    for (int64_t col = 0; col < want.cols(); ++col) {
      if (std::isinf(want.get(row, col))) continue;  // the lse of a query that sees no key
      greatest = std::max(greatest, std::abs(want.get(row, col)));
    }
  }
  const float bound = greatest * (dtype == DType::BF16  ? 0.02f
                                  : dtype == DType::F16 ? 0.0025f
                                                        : 5e-6f) +
                      1e-6f;
  for (int64_t row = 0; row < want.rows(); ++row) {
    for (int64_t col = 0; col < want.cols(); ++col) {
      if (got.get(row, col) == want.get(row, col)) continue;
      ASSERT_NEAR(got.get(row, col), want.get(row, col), bound) << row << ", " << col;
    }
  }
}

template <typename Body>  // body(operands, dtype)
void for_every_attention(Body&& body) {
  for (DType dtype : kAttentionDTypes) {
    for (float dropout : {0.0f, 0.25f}) {
      for (const AttentionShape& shape : odd_attention_shapes()) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + text_of(shape) + " dropout " +
                     std::to_string(dropout));
        AttentionOperands operands(shape, dtype, dropout);
        body(operands, dtype);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

template <typename Body>  // body(kernels, operands, dtype)
void for_every_case(Body&& body) {
  for_every_attention([&](const AttentionOperands& given, DType dtype) {
    for (Isa isa : supported_isas()) {
      SCOPED_TRACE(name_of(isa));
      AttentionOperands operands = given;
      body(cpu_kernels(isa), operands, dtype);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Compares the kernels of every instruction set with the reference, which is computed once.
inline void expect_the_reference(AttentionOperands& given, DType dtype) {
  TestStream threads(2);
  AttentionOperands want = given;
  attention_forward_ref(threads.stream, want.forward());
  attention_backward_ref(threads.stream, want.backward());
  for (Isa isa : supported_isas()) {
    SCOPED_TRACE(name_of(isa));
    const KernelTable& kernels = cpu_kernels(isa);
    AttentionOperands got = given;
    kernels.attention_forward(threads.stream, got.forward());
    expect_near(got.out, want.out, dtype);
    expect_near(got.lse, want.lse, dtype);
    for (size_t head = 0; head < want.max.size(); ++head) {
      ASSERT_NEAR(got.max[head], want.max[head], 1e-5 * std::abs(want.max[head]) + 1e-6);
    }
    if (testing::Test::HasFatalFailure()) return;
    kernels.attention_backward(threads.stream, got.backward());
    expect_near(got.delta, want.delta, dtype);
    expect_near(got.dqkv, want.dqkv, dtype);
  }
}

}  // namespace trireme
