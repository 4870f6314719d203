#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr float kLeastSum = 1e-20f;  // smallest divisor of the scores of a token
constexpr float kLowest = -3.40282347e38f;

TRIREME_INLINE int64_t num_rows(const TensorRef& begin_E) {
  return static_cast<const int32_t*>(begin_E.data)[begin_E.num_elements() - 1];
}

TRIREME_INLINE float at_least_sum(float sum) { return sum < kLeastSum ? kLeastSum : sum; }

// Turns logits into scores and returns the logarithm of the sum of the logits' exponentials.
TRIREME_INLINE float score_row(RouterScore score, float* x_E, int64_t E, float* exp_E) {
  float highest = kLowest;
  for (int64_t e = 0; e < E; ++e) highest = x_E[e] > highest ? x_E[e] : highest;
  for_each_vector(E, [&](int64_t e, auto lanes) TRIREME_INLINE_LAMBDA {
    store(exp_E + e, exp_f32(load(x_E + e, lanes) - broadcast(highest)), lanes);
  });
  float sum = 0.0f;
  for (int64_t e = 0; e < E; ++e) sum += exp_E[e];
  if (score == RouterScore::Softmax) {
    for (int64_t e = 0; e < E; ++e) x_E[e] = exp_E[e] / sum;
  } else {
    for_each_vector(E, [&](int64_t e, auto lanes) TRIREME_INLINE_LAMBDA {
      store(x_E + e, sigmoid_f32(load(x_E + e, lanes)), lanes);
    });
  }
  return highest + first_lane(log_f32(broadcast(sum)));
}

// Returns the largest value that is not taken; the lower position wins a tie. If no value is a
// number, returns the first free one.
TRIREME_INLINE int64_t take_largest(const float* x, uint8_t* taken, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!taken[i] && (best < 0 || x[i] > x[best])) best = i;
  }
  taken[best] = 1;
  return best;
}

// The scratch memory of one thread for a token.
struct RouteScratch {
  float *exp_E, *choice_E, *worth_G;
  uint8_t *taken_E, *taken_G;
};
TRIREME_INLINE RouteScratch route_scratch(Stream& stream, int thread, int64_t E) {
  float* base = reinterpret_cast<float*>(stream.workspace(thread));
  const int64_t padded = (E + kLanes - 1) / kLanes * kLanes;
  uint8_t* flags = reinterpret_cast<uint8_t*>(base + 3 * padded);
  return {base, base + padded, base + 2 * padded, flags, flags + padded};
}

// Marks the experts outside the best groups as taken.
void leave_groups(const RouteArgs& args, const RouteScratch& scratch) {
  const int64_t size = args.score_TE.cols / args.groups;
  for (int64_t g = 0; g < args.groups; ++g) {
    const float* x = scratch.choice_E + g * size;
    float first = kLowest, second = kLowest;
    for (int64_t e = 0; e < size; ++e) {
      if (x[e] > first) {
        second = first;
        first = x[e];
      } else if (x[e] > second) {
        second = x[e];
      }
    }
    scratch.worth_G[g] = size > 1 ? first + second : first;
    scratch.taken_G[g] = 0;
  }
  for (int64_t i = 0; i < args.top_groups; ++i) {
    const int64_t g = take_largest(scratch.worth_G, scratch.taken_G, args.groups);
    for (int64_t e = 0; e < size; ++e) scratch.taken_E[g * size + e] = 0;
  }
}

void route_rows(const RouteArgs& args, const RouteScratch& scratch, int64_t begin, int64_t end) {
  const int64_t E = args.score_TE.cols, k = args.expert_Tk.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* score_E = args.score_TE.row<float>(t);
    static_cast<float*>(args.lse_T.data)[t] = score_row(args.score, score_E, E, scratch.exp_E);
    for (int64_t e = 0; e < E; ++e) {
      float bias = 0.0f;
      if (args.bias_E) {
        with_element(args.bias_E.dtype, [&]<typename T>(T) TRIREME_INLINE_LAMBDA {
          bias = load_scalar(static_cast<const T*>(args.bias_E.data) + e);
        });
      }
      scratch.choice_E[e] = score_E[e] + bias;
      scratch.taken_E[e] = 1;
    }
    leave_groups(args, scratch);
    int32_t* expert_k = args.expert_Tk.row<int32_t>(t);
    float* weight_k = args.weight_Tk.row<float>(t);
    float sum = 0.0f;
    for (int64_t j = 0; j < k; ++j) {
      if (!args.is_chosen)
        expert_k[j] = int32_t(take_largest(scratch.choice_E, scratch.taken_E, E));
      sum += score_E[expert_k[j]];
    }
    for (int64_t j = 0; j < k; ++j) {
      weight_k[j] = args.scale * (score_E[expert_k[j]] / at_least_sum(sum));
    }
  }
}

// Computes the gradient of a token's scores, then the gradient of its logits.
void score_gradient(const RouteBackwardArgs& args, int64_t t, float* dscore_E) {
  const int64_t E = args.score_TE.cols, k = args.expert_Tk.cols;
  const float* score_E = args.score_TE.row<float>(t);
  const int64_t sequence = args.score_TE.rows / args.count_nE.rows;
  const int32_t* count_E = args.count_nE.row<int32_t>(t / sequence);
  float sum = 0.0f, mean = 0.0f;
  for (int64_t e = 0; e < E; ++e) {
    sum += score_E[e];
    mean += float(count_E[e]) * score_E[e];
  }
  sum = at_least_sum(sum);
  mean = mean / sum;
  for (int64_t e = 0; e < E; ++e) {
    dscore_E[e] = args.balance * (float(count_E[e]) - mean) / sum;
  }
  const int32_t* expert_k = args.expert_Tk.row<int32_t>(t);
  const int32_t* row_k = args.row_Tk.row<int32_t>(t);
  const float* weight_k = args.weight_Tk.row<float>(t);
  const float* dweight_A = static_cast<const float*>(args.dweight_A.data);
  float chosen = 0.0f, weighted = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    chosen += score_E[expert_k[j]];
    weighted += (row_k[j] < 0 ? 0.0f : dweight_A[row_k[j]]) * weight_k[j];
  }
  for (int64_t j = 0; j < k; ++j) {
    const float dweight = row_k[j] < 0 ? 0.0f : dweight_A[row_k[j]];
    dscore_E[expert_k[j]] += (args.scale * dweight - weighted) / at_least_sum(chosen);
  }
}

template <typename T>
void route_backward_rows(const RouteBackwardArgs& args, float* dlogit_E, int64_t begin,
                         int64_t end) {
  const int64_t E = args.score_TE.cols;
  for (int64_t t = begin; t < end; ++t) {
    const float* score_E = args.score_TE.row<float>(t);
    score_gradient(args, t, dlogit_E);
    float dot = 0.0f;
    for (int64_t e = 0; e < E; ++e) dot += dlogit_E[e] * score_E[e];
    const float of_z = 2.0f * args.z * static_cast<const float*>(args.lse_T.data)[t];
    for (int64_t e = 0; e < E; ++e) {
      const float s = score_E[e];
      dlogit_E[e] = args.score == RouterScore::Softmax ? s * (dlogit_E[e] - dot + of_z)
                                                       : dlogit_E[e] * s * (1.0f - s);
    }
    T* out_E = args.dlogits_TE.row<T>(t);
    for_each_vector(E, [&](int64_t e, auto lanes) TRIREME_INLINE_LAMBDA {
      store(out_E + e, load(dlogit_E + e, lanes), lanes);
    });
  }
}

template <typename T>
void combine(const CombineRowsArgs& args, int64_t begin, int64_t end) {
  const int64_t k = args.row_Tk.cols;
  for (int64_t t = begin; t < end; ++t) {
    const int32_t* row_k = args.row_Tk.row<int32_t>(t);
    const T* residual_C = args.residual_TC ? args.residual_TC.row<T>(t) : nullptr;
    T* y_C = args.y_TC.row<T>(t);
    for_each_vector(args.y_TC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      F32x16 sum = residual_C ? load(residual_C + c, lanes) : zeros();
      for (int64_t j = 0; j < k; ++j) {
        if (row_k[j] >= 0) sum = sum + load(args.x_AC.row<T>(row_k[j]) + c, lanes);
      }
      store(y_C + c, sum, lanes);
    });
  }
}

template <typename T>
void activate_rows(const ExpertActivationArgs& args, int64_t begin, int64_t end) {
  const int64_t F = args.y_AF.cols;
  for (int64_t a = begin; a < end; ++a) {
    const T* gate_F = args.u_AU.row<T>(a);
    const T* up_F = gate_F + F;
    T* y_F = args.y_AF.row<T>(a);
    const F32x16 weight = broadcast(static_cast<const float*>(args.weight_A.data)[a]);
    for_each_vector(F, [&](int64_t f, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 gate = load(gate_F + f, lanes);
      store(y_F + f, weight * (gate * sigmoid_f32(gate) * load(up_F + f, lanes)), lanes);
    });
  }
}

template <typename T>
void activate_backward_rows(const ExpertActivationBackwardArgs& args, int64_t begin, int64_t end) {
  const int64_t F = args.dy_AF.cols;
  for (int64_t a = begin; a < end; ++a) {
    const T* dy_F = args.dy_AF.row<T>(a);
    const T* gate_F = args.u_AU.row<T>(a);
    const T* up_F = gate_F + F;
    T* dgate_F = args.du_AU.row<T>(a);
    T* dup_F = dgate_F + F;
    const F32x16 weight = broadcast(static_cast<const float*>(args.weight_A.data)[a]);
    float dweight[1];
    sum_row(F, dweight, [&](int64_t f, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
      const F32x16 dy = load(dy_F + f, lanes);
      const F32x16 gate = load(gate_F + f, lanes);
      const F32x16 up = load(up_F + f, lanes);
      const F32x16 s = sigmoid_f32(gate);
      const F32x16 silu = gate * s;
      chain[0] = fma(dy, keep_lanes(silu * up, lanes, zeros()), chain[0]);
      store(dgate_F + f, weight * dy * up * fma(silu, broadcast(1.0f) - s, s), lanes);
      store(dup_F + f, weight * dy * silu, lanes);
    });
    static_cast<float*>(args.dweight_A.data)[a] = dweight[0];
  }
}

}  // namespace

void route(Stream& stream, const RouteArgs& args) {
  check_route(args);
  const int64_t E = args.score_TE.cols;
  for_each_row_tile(stream, args.score_TE.rows, E, [&](int64_t begin, int64_t end, int thread) {
    route_rows(args, route_scratch(stream, thread, E), begin, end);
  });
}

void route_backward(Stream& stream, const RouteBackwardArgs& args) {
  check_route_backward(args);
  with_element(args.dlogits_TE.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.score_TE.rows, args.score_TE.cols,
                      [&](int64_t begin, int64_t end, int thread) {
                        float* dlogit_E = reinterpret_cast<float*>(stream.workspace(thread));
                        route_backward_rows<T>(args, dlogit_E, begin, end);
                      });
  });
}

void count_visits(Stream&, const CountVisitsArgs& args) {
  check_count_visits(args);
  const int64_t E = args.count_cE.cols, stretch = args.expert_Tk.rows / args.count_cE.rows;
  for (int64_t c = 0; c < args.count_cE.rows; ++c) {
    int32_t* count_E = args.count_cE.row<int32_t>(c);
    for (int64_t e = 0; e < E; ++e) count_E[e] = 0;
    for (int64_t t = c * stretch; t < (c + 1) * stretch; ++t) {
      for (int64_t j = 0; j < args.expert_Tk.cols; ++j)
        ++count_E[args.expert_Tk.row<int32_t>(t)[j]];
    }
  }
}

namespace {

// Calls visit for each visit, token by token, with whether its expert takes it. earlier_E is
// scratch.
template <typename Visit>
void for_each_visit(const SortVisitsArgs& args, int32_t* earlier_E, Visit&& visit) {
  const int64_t T = args.expert_Tk.rows, E = args.count_nE.cols;
  const int64_t stretch = args.before_cE ? T / args.before_cE.rows : T;
  for (int64_t e = 0; e < E; ++e) earlier_E[e] = 0;
  for (int64_t t = 0; t < T; ++t) {
    if (args.before_cE && t % stretch == 0) {
      const int32_t* before_E = args.before_cE.row<int32_t>(t / stretch);
      for (int64_t e = 0; e < E; ++e) earlier_E[e] = before_E[e];
    }
    const int32_t* expert_k = args.expert_Tk.row<int32_t>(t);
    for (int64_t j = 0; j < args.expert_Tk.cols; ++j) {
      visit(t, j, expert_k[j], earlier_E[expert_k[j]]++ < args.capacity);
    }
  }
}

}  // namespace

// One pass counts and one assigns rows, with a few integer operations per visit, on one thread.
void sort_visits(Stream& stream, const SortVisitsArgs& args) {
  check_sort_visits(args);
  const int64_t E = args.count_nE.cols;
  count_visits(stream, {args.expert_Tk, args.count_nE});
  int32_t* load_E = static_cast<int32_t*>(args.load_E.data);
  int32_t* begin_E = static_cast<int32_t*>(args.begin_E.data);
  int32_t* earlier_E = reinterpret_cast<int32_t*>(stream.workspace(0));
  int32_t* next_E = earlier_E + E;
  for (int64_t e = 0; e <= E; ++e) load_E[e] = begin_E[e] = 0;
  for_each_visit(args, earlier_E, [&](int64_t, int64_t, int32_t e, bool is_taken) {
    ++load_E[e];
    ++(is_taken ? begin_E[e + 1] : load_E[E]);
  });
  for (int64_t e = 0; e < E; ++e) {
    next_E[e] = begin_E[e];
    begin_E[e + 1] += begin_E[e];
  }
  int32_t* token_A = static_cast<int32_t*>(args.token_A.data);
  float* weight_A = static_cast<float*>(args.weight_A.data);
  for_each_visit(args, earlier_E, [&](int64_t t, int64_t j, int32_t e, bool is_taken) {
    int32_t& row = args.row_Tk.row<int32_t>(t)[j];
    row = is_taken ? next_E[e]++ : -1;
    if (!is_taken) return;
    token_A[row] = int32_t(t);
    weight_A[row] = args.weight_Tk.row<float>(t)[j];
  });
}

void gather_rows(Stream& stream, const GatherRowsArgs& args) {
  check_gather_rows(args);
  const int32_t* token_A = static_cast<const int32_t*>(args.token_A.data);
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    for_each_row_tile(
        stream, num_rows(args.begin_E), args.x_TC.cols, [&](int64_t begin, int64_t end, int) {
          for (int64_t a = begin; a < end; ++a) {
            __builtin_memcpy(static_cast<void*>(args.y_AC.row<T>(a)), args.x_TC.row<T>(token_A[a]),
                             size_t(args.x_TC.cols) * sizeof(T));
          }
        });
  });
}

void combine_rows(Stream& stream, const CombineRowsArgs& args) {
  check_combine_rows(args);
  with_element(args.x_AC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.row_Tk.rows, args.y_TC.cols,
                      [&](int64_t begin, int64_t end, int) { combine<T>(args, begin, end); });
  });
}

void expert_activation(Stream& stream, const ExpertActivationArgs& args) {
  check_expert_activation(args);
  with_element(args.u_AU.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, num_rows(args.begin_E), args.u_AU.cols,
                      [&](int64_t begin, int64_t end, int) { activate_rows<T>(args, begin, end); });
  });
}

void expert_activation_backward(Stream& stream, const ExpertActivationBackwardArgs& args) {
  check_expert_activation_backward(args);
  with_element(args.u_AU.dtype, [&]<typename T>(T) {
    for_each_row_tile(
        stream, num_rows(args.begin_E), args.u_AU.cols,
        [&](int64_t begin, int64_t end, int) { activate_backward_rows<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
