#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/moe/moe.h"
#include "kernels/ref_access.h"
#include "kernels/ref_math.h"

namespace trireme {
namespace {

int64_t num_rows(const TensorRef& begin_E) {
  return begin_E.as<int32_t>()[begin_E.num_elements() - 1];
}

// Returns the positions of the `count` largest values, largest first; the lower position wins a
// tie.
std::vector<int64_t> largest(const std::vector<double>& values, int64_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return values[size_t(a)] > values[size_t(b)]; });
  order.resize(size_t(count));
  return order;
}

// Keeps only the best groups; experts of the others cannot be chosen.
void leave_groups(std::vector<double>& choice, int64_t groups, int64_t top_groups) {
  const int64_t size = int64_t(choice.size()) / groups;
  std::vector<double> worth;
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<double> members(choice.begin() + g * size, choice.begin() + (g + 1) * size);
    std::sort(members.rbegin(), members.rend());
    worth.push_back(size > 1 ? members[0] + members[1] : members[0]);
  }
  std::vector<bool> kept(size_t(groups), false);
  for (const int64_t g : largest(worth, top_groups)) kept[size_t(g)] = true;
  for (size_t e = 0; e < choice.size(); ++e) {
    if (!kept[e / size_t(size)]) choice[e] = -INFINITY;
  }
}

}  // namespace

void route_ref(Stream&, const RouteArgs& args) {
  check_route(args);
  const int64_t E = args.score_TE.cols, k = args.expert_Tk.cols;
  for (int64_t t = 0; t < args.score_TE.rows; ++t) {
    double highest = -INFINITY, sum = 0.0;
    for (int64_t e = 0; e < E; ++e) highest = std::max(highest, read(args.score_TE, t, e));
    for (int64_t e = 0; e < E; ++e) sum += std::exp(read(args.score_TE, t, e) - highest);
    write(args.lse_T, t, highest + std::log(sum));
    std::vector<double> choice;
    for (int64_t e = 0; e < E; ++e) {
      const double logit = read(args.score_TE, t, e);
      const bool softmax = args.score == RouterScore::Softmax;
      write(args.score_TE, t, e, softmax ? std::exp(logit - highest) / sum : sigmoid(logit));
      const double bias = args.bias_E ? read(args.bias_E, e) : 0.0;
      choice.push_back(float(read(args.score_TE, t, e) + bias));
    }
    leave_groups(choice, args.groups, args.top_groups);
    std::vector<int64_t> chosen = largest(choice, k);
    if (args.is_chosen)
      chosen.assign(args.expert_Tk.row<int32_t>(t), args.expert_Tk.row<int32_t>(t) + k);
    double total = 0.0;
    for (const int64_t e : chosen) total += read(args.score_TE, t, e);
    for (int64_t j = 0; j < k; ++j) {
      args.expert_Tk.row<int32_t>(t)[j] = int32_t(chosen[size_t(j)]);
      write(
          args.weight_Tk, t, j,
          double(args.scale) * read(args.score_TE, t, chosen[size_t(j)]) / std::max(total, 1e-20));
    }
  }
}

void route_backward_ref(Stream&, const RouteBackwardArgs& args) {
  check_route_backward(args);
  const int64_t T = args.score_TE.rows, E = args.score_TE.cols, k = args.expert_Tk.cols;
  const int64_t sequence = T / args.count_nE.rows;
  const bool softmax = args.score == RouterScore::Softmax;
  for (int64_t t = 0; t < T; ++t) {
    const auto score = [&](int64_t e) { return read(args.score_TE, t, e); };
    double sum = 0.0, mean = 0.0;
    for (int64_t e = 0; e < E; ++e) sum += score(e);
    const auto dshare = [&](int64_t e) {
      const int64_t n = t / sequence;
      return double(args.balance) * args.count_nE.row<int32_t>(n)[e];
    };
    for (int64_t e = 0; e < E; ++e) mean += dshare(e) * score(e) / std::max(sum, 1e-20);
    std::vector<double> dscore;
    for (int64_t e = 0; e < E; ++e) dscore.push_back((dshare(e) - mean) / std::max(sum, 1e-20));
    const int32_t* expert = args.expert_Tk.row<int32_t>(t);
    const int32_t* row = args.row_Tk.row<int32_t>(t);
    double chosen = 0.0, weighted = 0.0;
    const auto dweight = [&](int64_t j) { return row[j] < 0 ? 0.0 : read(args.dweight_A, row[j]); };
    for (int64_t j = 0; j < k; ++j) {
      chosen += score(expert[j]);
      weighted += dweight(j) * read(args.weight_Tk, t, j);
    }
    for (int64_t j = 0; j < k; ++j) {
      dscore[size_t(expert[j])] +=
          (double(args.scale) * dweight(j) - weighted) / std::max(chosen, 1e-20);
    }
    double dot = 0.0;
    for (int64_t e = 0; e < E; ++e) dot += dscore[size_t(e)] * score(e);
    for (int64_t e = 0; e < E; ++e) {
      const double d = dscore[size_t(e)], s = score(e);
      const double of_z = 2.0 * double(args.z) * read(args.lse_T, t) * s;
      write(args.dlogits_TE, t, e, softmax ? s * (d - dot) + of_z : d * s * (1.0 - s));
    }
  }
}

void count_visits_ref(Stream&, const CountVisitsArgs& args) {
  check_count_visits(args);
  const int64_t T = args.expert_Tk.rows, stretch = T / args.count_cE.rows;
  for (int64_t c = 0; c < args.count_cE.rows; ++c) {
    std::fill_n(args.count_cE.row<int32_t>(c), args.count_cE.cols, 0);
  }
  for (int64_t visit = 0; visit < T * args.expert_Tk.cols; ++visit) {
    const int64_t t = visit / args.expert_Tk.cols, j = visit % args.expert_Tk.cols;
    ++args.count_cE.row<int32_t>(t / stretch)[args.expert_Tk.row<int32_t>(t)[j]];
  }
}

void sort_visits_ref(Stream& stream, const SortVisitsArgs& args) {
  check_sort_visits(args);
  const int64_t T = args.expert_Tk.rows, k = args.expert_Tk.cols, E = args.count_nE.cols;
  const int64_t stretch = args.before_cE ? T / args.before_cE.rows : T;
  count_visits_ref(stream, {args.expert_Tk, args.count_nE});
  int32_t* load = args.load_E.as<int32_t>();
  std::fill_n(load, E + 1, 0);
  int32_t next = 0;
  for (int64_t e = 0; e < E; ++e) {
    int64_t earlier = 0;
    args.begin_E.as<int32_t>()[e] = next;
    for (int64_t visit = 0; visit < T * k; ++visit) {
      const int64_t t = visit / k, j = visit % k;
      const bool begins = args.before_cE && t % stretch == 0 && j == 0;
      if (begins) earlier = args.before_cE.row<int32_t>(t / stretch)[e];
      if (args.expert_Tk.row<int32_t>(t)[j] != e) continue;
      ++load[e];
      const bool is_dropped = earlier++ >= args.capacity;
      args.row_Tk.row<int32_t>(t)[j] = is_dropped ? -1 : next;
      load[E] += is_dropped ? 1 : 0;
      if (is_dropped) continue;
      args.token_A.as<int32_t>()[next] = int32_t(t);
      args.weight_A.as<float>()[next++] = args.weight_Tk.row<float>(t)[j];
    }
  }
  args.begin_E.as<int32_t>()[E] = next;
}

void gather_rows_ref(Stream&, const GatherRowsArgs& args) {
  check_gather_rows(args);
  for (int64_t a = 0; a < num_rows(args.begin_E); ++a) {
    const int64_t t = args.token_A.as<int32_t>()[a];
    for (int64_t c = 0; c < args.x_TC.cols; ++c) write(args.y_AC, a, c, read(args.x_TC, t, c));
  }
}

void combine_rows_ref(Stream&, const CombineRowsArgs& args) {
  check_combine_rows(args);
  for (int64_t t = 0; t < args.row_Tk.rows; ++t) {
    for (int64_t c = 0; c < args.y_TC.cols; ++c) {
      double sum = args.residual_TC ? read(args.residual_TC, t, c) : 0.0;
      for (int64_t j = 0; j < args.row_Tk.cols; ++j) {
        const int32_t row = args.row_Tk.row<int32_t>(t)[j];
        if (row >= 0) sum += read(args.x_AC, row, c);
      }
      write(args.y_TC, t, c, sum);
    }
  }
}

void expert_activation_ref(Stream&, const ExpertActivationArgs& args) {
  check_expert_activation(args);
  const int64_t F = args.y_AF.cols;
  for (int64_t a = 0; a < num_rows(args.begin_E); ++a) {
    for (int64_t f = 0; f < F; ++f) {
      const double gate = read(args.u_AU, a, f), up = read(args.u_AU, a, F + f);
      write(args.y_AF, a, f, read(args.weight_A, a) * gate * sigmoid(gate) * up);
    }
  }
}

void expert_activation_backward_ref(Stream&, const ExpertActivationBackwardArgs& args) {
  check_expert_activation_backward(args);
  const int64_t F = args.dy_AF.cols;
  for (int64_t a = 0; a < num_rows(args.begin_E); ++a) {
    const double weight = read(args.weight_A, a);
    double dweight = 0.0;
    for (int64_t f = 0; f < F; ++f) {
      const double gate = read(args.u_AU, a, f), up = read(args.u_AU, a, F + f);
      const double dy = read(args.dy_AF, a, f), s = sigmoid(gate);
      dweight += dy * gate * s * up;
      write(args.du_AU, a, f, weight * dy * up * s * (1.0 + gate * (1.0 - s)));
      write(args.du_AU, a, F + f, weight * dy * gate * s);
    }
    write(args.dweight_A, a, dweight);
  }
}

}  // namespace trireme
