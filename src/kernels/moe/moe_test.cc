#include "kernels/moe/moe.h"

#include "kernels/kernel_laws.h"
#include "kernels/moe/moe_cases.h"

namespace trireme {
namespace {

struct Integers {
  Integers(int64_t rows, int64_t cols) : rows(rows), cols(cols), values(size_t(rows * cols), -7) {}
  MatrixRef ref() { return {values.data(), DType::I32, rows, cols, cols}; }
  TensorRef flat() { return {values.data(), DType::I32, Shape{rows * cols}}; }
  int32_t& at(int64_t row, int64_t col) { return values[size_t(row * cols + col)]; }
  bool operator==(const Integers&) const = default;
  int64_t rows, cols;
  std::vector<int32_t> values;
};

// The routing of a whole layer, and what its experts read and write.
struct Operands {
  Operands(DType dtype, const MoeShape& s, RouterScore score = RouterScore::Softmax)
      : shape(s),
        score(score),
        score_TE(DType::F32, s.tokens, s.experts, 2, 1, 3.0f),
        bias(DType::F32, 1, s.experts, 0, 2, 0.1f),
        lse(DType::F32, 1, s.tokens, 0, 3),
        weight_Tk(DType::F32, s.tokens, s.top_k, 0, 4),
        weight_A(DType::F32, 1, s.rows(), 0, 5),
        dweight_A(DType::F32, 1, s.rows(), 0, 6),
        dlogits_TE(dtype, s.tokens, s.experts, 0, 7),
        x_TC(dtype, s.tokens, s.d_model, 3, 8),
        x_AC(dtype, s.rows(), s.d_model, 1, 9),
        y_TC(dtype, s.tokens, s.d_model, 2, 10),
        u_AU(dtype, s.rows(), 2 * s.d_ff, 1, 11, 3.0f),
        y_AF(dtype, s.rows(), s.d_ff, 0, 12),
        dy_AF(dtype, s.rows(), s.d_ff, 4, 13),
        du_AU(dtype, s.rows(), 2 * s.d_ff, 0, 14),
        expert_Tk(s.tokens, s.top_k),
        row_Tk(s.tokens, s.top_k),
        token_A(1, s.rows()),
        begin_E(1, s.experts + 1),
        count_nE(s.sequences, s.experts),
        load_E(1, s.experts + 1) {}
  bool operator==(const Operands& o) const {
    return score_TE == o.score_TE && lse == o.lse && weight_Tk == o.weight_Tk &&
           weight_A == o.weight_A && dweight_A == o.dweight_A && dlogits_TE == o.dlogits_TE &&
           x_AC == o.x_AC && y_TC == o.y_TC && y_AF == o.y_AF && du_AU == o.du_AU &&
           expert_Tk == o.expert_Tk && row_Tk == o.row_Tk && token_A == o.token_A &&
           begin_E == o.begin_E && count_nE == o.count_nE && load_E == o.load_E;
  }

  RouteArgs route() {
    return {score,      shape.groups, shape.top_groups, score_TE,
            bias.row(), lse.row(),    expert_Tk.ref(),  weight_Tk};
  }
  SortVisitsArgs sort() {
    return {expert_Tk.ref(), weight_Tk,      shape.capacity, row_Tk.ref(), token_A.flat(),
            weight_A.row(),  begin_E.flat(), count_nE.ref(), load_E.flat()};
  }
  RouteBackwardArgs route_backward() {
    const float z = score == RouterScore::Softmax ? 0.3f : 0.0f;
    return {score,        score_TE,        expert_Tk.ref(), weight_Tk, lse.row(),
            row_Tk.ref(), dweight_A.row(), count_nE.ref(),  0.2f,      z,
            dlogits_TE};
  }
  GatherRowsArgs gather() { return {x_TC, token_A.flat(), begin_E.flat(), x_AC}; }
  CombineRowsArgs combine() { return {x_AC, row_Tk.ref(), x_TC, y_TC}; }
  ExpertActivationArgs activation() { return {u_AU, weight_A.row(), begin_E.flat(), y_AF}; }
  ExpertActivationBackwardArgs activation_backward() {
    return {dy_AF, u_AU, weight_A.row(), begin_E.flat(), du_AU, dweight_A.row()};
  }
  void run(const KernelTable& kernels, Stream& stream) {
    kernels.route(stream, route());
    kernels.sort_visits(stream, sort());
    kernels.gather_rows(stream, gather());
    kernels.combine_rows(stream, combine());
    kernels.expert_activation(stream, activation());
    kernels.expert_activation_backward(stream, activation_backward());
    kernels.route_backward(stream, route_backward());
  }
  int64_t rows_in_use() { return begin_E.at(0, shape.experts); }

  MoeShape shape;
  RouterScore score;
  RandomMatrix score_TE, bias, lse, weight_Tk, weight_A, dweight_A, dlogits_TE, x_TC, x_AC, y_TC,
      u_AU, y_AF, dy_AF, du_AU;
  Integers expert_Tk, row_Tk, token_A, begin_E, count_nE, load_E;
};

constexpr RouterScore kScores[] = {RouterScore::Softmax, RouterScore::Sigmoid};

template <typename Body>
void for_every_case(Body&& body) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (RouterScore score : kScores) {
      for (const MoeShape& shape : kMoeShapes) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " score " + std::to_string(int(score)) + " " +
                     std::to_string(shape.tokens) + " tokens, " + std::to_string(shape.experts) +
                     " experts");
        body(Operands(dtype, shape, score));
      }
    }
  }
}

TEST(Moe, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    const auto run = [](const KernelTable& kernels, Stream& stream, Operands& o) {
      o.run(kernels, stream);
    };
    Operands got = same_bits_everywhere(teams, start, run);
    Operands want = by_reference(teams, start, run);
    expect_near(got.score_TE, want.score_TE, 2e-6, "scores");
    expect_near(got.lse, want.lse, 3e-6, "lse");
    expect_near(got.weight_Tk, want.weight_Tk, 3e-6, "weights");
    EXPECT_EQ(got.expert_Tk, want.expert_Tk);
    EXPECT_EQ(got.row_Tk, want.row_Tk);
    EXPECT_EQ(got.token_A, want.token_A);
    EXPECT_EQ(got.begin_E, want.begin_E);
    EXPECT_EQ(got.count_nE, want.count_nE);
    EXPECT_EQ(got.load_E, want.load_E);
    const int64_t rows = got.rows_in_use();
    const auto used = [&](const RandomMatrix& x) {
      RandomMatrix copy(x);
      for (int64_t a = rows; a < copy.rows(); ++a) {
        for (int64_t c = 0; c < copy.cols(); ++c) copy.set(a, c, 0.0f);
      }
      return copy;
    };
    expect_near(used(got.x_AC), used(want.x_AC), 0.0, "rows");
    expect_near(got.y_TC, want.y_TC, 2e-6, "combined");
    expect_near(used(got.y_AF), used(want.y_AF), 2e-6, "activation");
    expect_near(used(got.du_AU), used(want.du_AU), 6e-6, "du");
    expect_near(got.dweight_A, want.dweight_A, 2e-5, "dweight");
    expect_near(got.dlogits_TE, want.dlogits_TE, 3e-5, "dlogits");
  });
}

TEST(Moe, ATieGoesToTheLowerExpertAndTheLowerGroup) {
  Teams teams;
  const MoeShape shape = {5, 1, 12, 4, 3, 2, 5, 1, 1};
  for (RouterScore score : kScores) {
    Operands o(DType::F32, shape, score);
    for (int64_t t = 0; t < shape.tokens; ++t) {
      for (int64_t e = 0; e < shape.experts; ++e) o.score_TE.set(t, e, 0.5f);
    }
    for (Isa isa : supported_isas()) {
      Operands at = o;
      RouteArgs own = at.route();
      own.bias_E = {};
      cpu_kernels(isa).route(teams.of_2, own);
      for (int64_t t = 0; t < shape.tokens; ++t) {
        for (int64_t j = 0; j < shape.top_k; ++j) EXPECT_EQ(at.expert_Tk.at(t, j), j);
      }
    }
  }
}

TEST(Moe, ATokenStaysInItsBestGroups) {
  Teams teams;
  const MoeShape shape = {64, 1, 16, 4, 8, 3, 64, 1, 1};
  Operands o(DType::F32, shape);
  o.run(reference_kernels(), teams.of_1);
  for (int64_t t = 0; t < shape.tokens; ++t) {
    std::vector<int32_t> groups;
    for (int64_t j = 0; j < shape.top_k; ++j) groups.push_back(o.expert_Tk.at(t, j) / 2);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    EXPECT_LE(groups.size(), 3u);
  }
}

TEST(Moe, AnExpertTakesItsFirstTokensAndEveryVisitIsCounted) {
  Teams teams;
  for_every_case([&](Operands o) {
    o.run(reference_kernels(), teams.of_1);
    const MoeShape& s = o.shape;
    EXPECT_EQ(o.load_E.at(0, s.experts), s.tokens * s.top_k - o.rows_in_use());
    for (int64_t e = 0; e < s.experts; ++e) {
      int64_t taken = 0;
      for (int64_t t = 0; t < s.tokens; ++t) {
        for (int64_t j = 0; j < s.top_k; ++j) {
          if (o.expert_Tk.at(t, j) != e) continue;
          const int64_t row = taken < s.capacity ? o.begin_E.at(0, e) + taken++ : -1;
          EXPECT_EQ(o.row_Tk.at(t, j), row);
          if (row < 0) continue;
          EXPECT_EQ(o.token_A.at(0, row), t);
        }
      }
      EXPECT_EQ(o.begin_E.at(0, e + 1), o.begin_E.at(0, e) + taken);
    }
  });
}

// Ranks hold every second chunk of the tokens and know the counts of the chunks before. Together
// they take the same visits as a single rank.
TEST(Moe, VisitsOfPartsOfTheTokensAreThoseOfAll) {
  Teams teams;
  for_every_case([&](Operands o) {
    o.run(reference_kernels(), teams.of_1);
    const MoeShape& s = o.shape;
    if (s.tokens % 4 != 0) return;
    const int64_t stretch = s.tokens / 4, k = s.top_k;
    Integers count(4, s.experts);
    count_visits_ref(teams.of_1, {o.expert_Tk.ref(), count.ref()});
    std::vector<const KernelTable*> tables = {&reference_kernels()};
    for (Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
    for (const KernelTable* kernels : tables) {
      int64_t dropped = 0;
      for (const int64_t part : {0, 1}) {
        MoeShape half = s;
        half.tokens /= 2;
        Operands own(DType::F32, half);
        Integers before(2, s.experts);
        const MatrixRef weight_Tk = o.weight_Tk, own_weight_Tk = own.weight_Tk;
        for (int64_t t = 0; t < half.tokens; ++t) {
          const int64_t whole = (2 * (t / stretch) + part) * stretch + t % stretch;
          for (int64_t j = 0; j < k; ++j) {
            own.expert_Tk.at(t, j) = o.expert_Tk.at(whole, j);
            own_weight_Tk.row<float>(t)[j] = weight_Tk.row<float>(whole)[j];
          }
        }
        for (int64_t e = 0; e < s.experts; ++e) {
          for (int64_t c = 0; c < 2; ++c) {
            before.at(c, e) = 0;
            for (int64_t earlier = 0; earlier < 2 * c + part; ++earlier) {
              before.at(c, e) += count.at(earlier, e);
            }
          }
        }
        SortVisitsArgs args = own.sort();
        args.before_cE = before.ref();
        kernels->sort_visits(teams.of_1, args);
        dropped += own.load_E.at(0, s.experts);
        for (int64_t t = 0; t < half.tokens; ++t) {
          const int64_t whole = (2 * (t / stretch) + part) * stretch + t % stretch;
          for (int64_t j = 0; j < k; ++j) {
            const int64_t row = own.row_Tk.at(t, j);
            EXPECT_EQ(row < 0, o.row_Tk.at(whole, j) < 0);
            EXPECT_EQ(row < 0 ? t : own.token_A.at(0, row), t);
          }
        }
      }
      EXPECT_EQ(dropped, o.load_E.at(0, s.experts));
    }
  });
}

TEST(Moe, CombineIsTheAdjointOfGather) {
  Teams teams;
  for_every_case([&](Operands o) {
    if (MatrixRef(o.x_TC).dtype != DType::F32) return;
    o.run(reference_kernels(), teams.of_1);
    RandomMatrix gathered(DType::F32, o.shape.rows(), o.shape.d_model, 0, 91, 0.0f);
    const RandomMatrix dy(DType::F32, o.shape.rows(), o.shape.d_model, 0, 92);
    RandomMatrix dy_used = dy, dx = o.y_TC;
    for (int64_t a = o.rows_in_use(); a < o.shape.rows(); ++a) {
      for (int64_t c = 0; c < o.shape.d_model; ++c) dy_used.set(a, c, 0.0f);
    }
    gather_rows_ref(teams.of_1, {o.x_TC, o.token_A.flat(), o.begin_E.flat(), gathered});
    combine_rows_ref(teams.of_1, {dy_used, o.row_Tk.ref(), {}, dx});
    const double there = inner_product(gathered, dy_used);
    EXPECT_NEAR(there, inner_product(o.x_TC, dx), 1e-4 * (1.0 + std::abs(there)));
  });
}

TEST(Moe, ReferenceActivationBackwardIsTheDerivativeOfForward) {
  Teams teams;
  const MoeShape shape = {6, 2, 4, 2, 1, 1, 6, 7, 5};
  Operands o(DType::F32, shape);
  o.run(reference_kernels(), teams.of_1);
  const auto slope = [&](RandomMatrix Operands::*input, const RandomMatrix& direction) {
    return derivative([&](double step) {
      Operands at = o;
      at.*input = moved(o.*input, direction, step);
      expert_activation_ref(teams.of_1, at.activation());
      return inner_product(at.y_AF, o.dy_AF);
    });
  };
  const RandomMatrix u(DType::F32, shape.rows(), 2 * shape.d_ff, 0, 98);
  const RandomMatrix weight(DType::F32, 1, shape.rows(), 0, 99);
  EXPECT_NEAR(inner_product(u, o.du_AU), slope(&Operands::u_AU, u), 5e-4);
  EXPECT_NEAR(inner_product(weight, o.dweight_A), slope(&Operands::weight_A, weight), 5e-4);
}

// Tests the weights, the balance loss and the z loss together. The choice of experts is fixed.
TEST(Moe, ReferenceRouteBackwardIsTheDerivativeOfForward) {
  Teams teams;
  const MoeShape shape = {12, 3, 7, 3, 1, 1, 4, 1, 1};
  for (RouterScore score : kScores) {
    Operands o(DType::F32, shape, score);
    const RandomMatrix logits = o.score_TE;
    o.run(reference_kernels(), teams.of_1);
    const RouteBackwardArgs back = o.route_backward();
    const RandomMatrix direction(DType::F32, shape.tokens, shape.experts, 0, 97, 0.1f);
    const double slope = derivative([&](double step) {
      Operands at = o;
      at.score_TE = moved(logits, direction, step);
      route_ref(teams.of_1, at.route());
      EXPECT_EQ(at.expert_Tk, o.expert_Tk);
      double loss = 0.0;
      for (int64_t t = 0; t < shape.tokens; ++t) {
        double sum = 0.0, balance = 0.0;
        for (int64_t e = 0; e < shape.experts; ++e) {
          sum += at.score_TE.get(t, e);
          balance += double(o.count_nE.at(t / 4, e)) * at.score_TE.get(t, e);
        }
        loss += back.balance * balance / sum + back.z * std::pow(at.lse.get(0, t), 2);
        for (int64_t j = 0; j < shape.top_k; ++j) {
          const int32_t row = o.row_Tk.at(t, j);
          if (row >= 0) loss += double(o.dweight_A.get(0, row)) * at.weight_Tk.get(t, j);
        }
      }
      return loss;
    });
    EXPECT_NEAR(inner_product(direction, o.dlogits_TE), slope, 1e-3);
  }
}

TEST(Moe, AVisitToNoExpertIsRefused) {
  Teams teams;
  for (int32_t expert : {-1, 4}) {
    Operands o(DType::F32, {6, 2, 4, 2, 1, 1, 6, 7, 5});
    o.run(reference_kernels(), teams.of_1);
    o.expert_Tk.at(3, 1) = expert;
    for (Isa isa : supported_isas()) {
      EXPECT_THROW(cpu_kernels(isa).sort_visits(teams.of_1, o.sort()), ContractError);
      EXPECT_THROW(cpu_kernels(isa).route_backward(teams.of_1, o.route_backward()), ContractError);
    }
  }
}

}  // namespace
}  // namespace trireme
