#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// Reads and writes the columns of one head in the rows of one sequence, in double.
struct HeadView {
  MatrixRef matrix;
  int64_t first_row;
  int64_t first_col;

  double get(int64_t row, int64_t dim) const {
    return read(matrix, first_row + row, first_col + dim);
  }
  void set(int64_t row, int64_t dim, double value) const {
    write(matrix, first_row + row, first_col + dim, value);
  }
};

struct Head {
  const AttentionShape& shape;
  const AttentionDropout& dropout;
  const AttentionWindow& window;
  int64_t sequence;
  int64_t head;

  int64_t kv_head() const { return head / (shape.num_heads / shape.num_kv_heads); }
  // The columns of the head: those of q, k and their gradients, or of v, out and theirs.
  HeadView queries(const MatrixRef& x) const {
    return {x, sequence * shape.q_len, head * (x.cols / shape.num_heads)};
  }
  HeadView keys(const MatrixRef& x) const {
    return {x, sequence * shape.kv_len, kv_head() * (x.cols / shape.num_kv_heads)};
  }
  int64_t statistic_index(int64_t query) const {
    return head * shape.num_sequences * shape.q_len + sequence * shape.q_len + query;
  }
  int64_t num_visible(int64_t query) const { return shape.num_visible(query); }
  int64_t first_key(int64_t query) const {
    return window ? window.first_key(sequence * shape.q_len + query) : 0;
  }
  static double dot(const HeadView& x, int64_t x_row, const HeadView& y, int64_t y_row,
                    int64_t dim) {
    double sum = 0.0;
    for (int64_t d = 0; d < dim; ++d) sum += x.get(x_row, d) * y.get(y_row, d);
    return sum;
  }
  // Returns 0 or the factor of a kept probability.
  double keep(int64_t query, int64_t key) const {
    if (dropout.probability == 0.0f) return 1.0;
    const uint64_t sample = dropout.first_sample + uint64_t(sequence);
    const uint64_t position = uint64_t(dropout.queries.of(shape.kv_len - shape.q_len + query));
    const uint64_t sample_and_head = sample << 16 | (dropout.first_head + uint64_t(head));
    const PhiloxCounter words = philox(
        dropout.key, counter_of(sample_and_head, position << 32 | uint64_t(dropout.keys.of(key))));
    if (uniform_float(words[0]) < dropout.probability) return 0.0;
    return 1.0 / (1.0 - double(dropout.probability));
  }
};

struct Probabilities {
  std::vector<double> of_key;
  double log_sum_exp = 0.0;
  double greatest = -std::numeric_limits<double>::infinity();  // of the scaled scores
};

Probabilities softmax(const Head& head, const HeadView& q, const HeadView& k, int64_t query) {
  Probabilities p;
  p.of_key.resize(size_t(head.num_visible(query)));
  const auto first = size_t(head.first_key(query));
  if (first >= p.of_key.size()) {  // sees no key
    p.log_sum_exp = -std::numeric_limits<double>::infinity();
    return p;
  }
  std::fill_n(p.of_key.begin(), first, -std::numeric_limits<double>::infinity());
  for (size_t key = first; key < p.of_key.size(); ++key) {
    p.of_key[key] = Head::dot(q, query, k, int64_t(key), head.shape.head_dim) * head.shape.scale;
  }
  const double greatest = *std::max_element(p.of_key.begin(), p.of_key.end());
  p.greatest = greatest;
  double sum = 0.0;
  for (double& score : p.of_key) sum += score = std::exp(score - greatest);
  for (double& probability : p.of_key) probability /= sum;
  p.log_sum_exp = greatest + std::log(sum);
  return p;
}

void forward(const Head& head, const AttentionForwardArgs& args) {
  const HeadView q = head.queries(args.q_T_HD), out = head.queries(args.out_T_HD);
  const HeadView k = head.keys(args.k_T_KD), v = head.keys(args.v_T_KD);
  for (int64_t query = 0; query < head.shape.q_len; ++query) {
    const Probabilities p = softmax(head, q, k, query);
    if (args.lse_HT) {
      args.lse_HT.as<float>()[head.statistic_index(query)] = float(p.log_sum_exp);
    }
    if (args.max_H) {
      float& greatest = args.max_H.as<float>()[head.head];
      greatest = std::max(greatest, float(p.greatest));
    }
    for (int64_t d = 0; d < head.shape.out_dim(); ++d) {
      double sum = 0.0;
      for (int64_t key = 0; key < int64_t(p.of_key.size()); ++key) {
        sum += p.of_key[size_t(key)] * head.keep(query, key) * v.get(key, d);
      }
      out.set(query, d, sum);
    }
  }
}

// The gradients of one kv head, summed over all heads that read it.
struct KeyGradients {
  std::vector<double> dk, dv;
};

void backward(const Head& head, const AttentionBackwardArgs& args, KeyGradients& sums) {
  const int64_t head_dim = head.shape.head_dim, out_dim = head.shape.out_dim();
  const HeadView q = head.queries(args.q_T_HD), dout = head.queries(args.dout_T_HD);
  const HeadView k = head.keys(args.k_T_KD), v = head.keys(args.v_T_KD);
  const HeadView dq = head.queries(args.dq_T_HD);
  for (int64_t query = 0; query < head.shape.q_len; ++query) {
    const Probabilities p = softmax(head, q, k, query);
    std::vector<double> dp(p.of_key.size());
    double delta = 0.0;
    for (size_t key = 0; key < dp.size(); ++key) {
      const double keep = head.keep(query, int64_t(key));
      dp[key] = keep * Head::dot(dout, query, v, int64_t(key), out_dim);
      delta += p.of_key[key] * dp[key];
      for (int64_t d = 0; d < out_dim; ++d) {
        sums.dv[key * size_t(out_dim) + size_t(d)] += p.of_key[key] * keep * dout.get(query, d);
      }
    }
    args.delta_HT.as<float>()[head.statistic_index(query)] = float(delta);
    std::vector<double> dq_row(size_t(head_dim), 0.0);
    for (size_t key = 0; key < dp.size(); ++key) {
      const double dscore = p.of_key[key] * (dp[key] - delta) * head.shape.scale;
      for (int64_t d = 0; d < head_dim; ++d) {
        dq_row[size_t(d)] += dscore * k.get(int64_t(key), d);
        sums.dk[key * size_t(head_dim) + size_t(d)] += dscore * q.get(query, d);
      }
    }
    for (int64_t d = 0; d < head_dim; ++d) dq.set(query, d, dq_row[size_t(d)]);
  }
}

}  // namespace

void attention_forward_ref(Stream&, const AttentionForwardArgs& args) {
  check_attention(args);
  for (int64_t sequence = 0; sequence < args.shape.num_sequences; ++sequence) {
    for (int64_t head = 0; head < args.shape.num_heads; ++head) {
      forward({args.shape, args.dropout, args.window, sequence, head}, args);
    }
  }
}

// An independent oracle: probabilities and delta are computed from q, k, v and dout, not from lse
// and out.
void attention_backward_ref(Stream&, const AttentionBackwardArgs& args) {
  check_attention(args);
  const AttentionShape& shape = args.shape;
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  for (int64_t sequence = 0; sequence < shape.num_sequences; ++sequence) {
    for (int64_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      KeyGradients sums{std::vector<double>(size_t(shape.kv_len * shape.head_dim)),
                        std::vector<double>(size_t(shape.kv_len * shape.out_dim()))};
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        backward({shape, args.dropout, args.window, sequence, head}, args, sums);
      }
      const Head first{shape, args.dropout, args.window, sequence, kv_head * group};
      for (int64_t key = 0; key < shape.kv_len; ++key) {
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          first.keys(args.dk_T_KD).set(key, d, sums.dk[size_t(key * shape.head_dim + d)]);
        }
        for (int64_t d = 0; d < shape.out_dim(); ++d) {
          first.keys(args.dv_T_KD).set(key, d, sums.dv[size_t(key * shape.out_dim() + d)]);
        }
      }
    }
  }
}

void attention_merge_ref(Stream&, const AttentionMergeArgs& args) {
  check_attention(args);
  const int64_t head_dim = args.out_T_HD.cols / args.num_heads;
  for (int64_t head = 0; head < args.num_heads; ++head) {
    for (int64_t t = 0; t < args.out_T_HD.rows; ++t) {
      float& lse = args.lse_HT.row<float>(head)[t];
      const double part_lse = args.part_lse_HT.row<float>(head)[t];
      const double greatest = std::max(double(lse), part_lse);
      const double joined =
          greatest + std::log(std::exp(lse - greatest) + std::exp(part_lse - greatest));
      const HeadView out{args.out_T_HD, 0, head * head_dim},
          part{args.part_T_HD, 0, head * head_dim};
      for (int64_t d = 0; d < head_dim; ++d) {
        out.set(
            t, d,
            out.get(t, d) * std::exp(lse - joined) + part.get(t, d) * std::exp(part_lse - joined));
      }
      lse = float(joined);
    }
  }
}

}  // namespace trireme
