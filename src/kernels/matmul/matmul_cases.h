#pragma once

#include <vector>

#include "kernels/matmul/matmul.h"

namespace trireme {

// c is rows x cols; the product sums over k.
struct MatmulShape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t k = 0;
};

// Shapes that miss every multiple of a vector, a panel, a group of rows, a pair or a block of k.
inline std::vector<MatmulShape> odd_matmul_shapes() {
  return {{1, 1, 1},    {1, 1, 2},     {2, 3, 0},     {1, 17, 33},   {5, 16, 15},   {6, 64, 32},
          {7, 63, 31},  {13, 65, 64},  {16, 16, 16},  {48, 128, 7},  {49, 129, 65}, {97, 31, 130},
          {3, 80, 513}, {53, 96, 514}, {7, 70, 1025}, {9, 33, 2051}, {64, 257, 48}, {130, 48, 96}};
}

// One linear layer: y_TF = x_TC w_FC^T and its two gradients.
struct LinearShape {
  int64_t tokens = 0;
  int64_t in = 0;
  int64_t out = 0;
};

// The linear layers of GPT-2 124M, of 6 layers x 384 and of 128 channels.
inline std::vector<LinearShape> training_linear_shapes() {
  return {{256, 768, 768},   {256, 768, 2304}, {256, 768, 3072},  {256, 3072, 768},
          {256, 768, 50257}, {1024, 768, 768}, {1024, 768, 2304}, {1024, 768, 3072},
          {1024, 3072, 768}, {2048, 384, 384}, {2048, 384, 1152}, {2048, 384, 1536},
          {2048, 1536, 384}, {768, 128, 128},  {768, 128, 384},   {768, 128, 512},
          {768, 512, 128},   {16, 16, 16},     {16, 16, 64}};
}

inline MatmulShape product_of(const LinearShape& linear, MatmulForm form) {
  switch (form) {
    case MatmulForm::NT:
      return {linear.tokens, linear.out, linear.in};
    case MatmulForm::NN:
      return {linear.tokens, linear.in, linear.out};
    case MatmulForm::TN:
      return {linear.out, linear.in, linear.tokens};
  }
  return {};
}

}  // namespace trireme
