#include "kernels/optimizer/optimizer.h"

#include <cstring>

#include "base/stochastic_rounding.h"
#include "base/stream_copy.h"
#include "device/buffer.h"
#include "kernels/kernel_laws.h"
#include "kernels/optimizer/optimizer_cases.h"

namespace trireme {
namespace {

struct StateDTypes {
  DType grad = DType::F32, master = DType::F32, moment = DType::F32;
};
std::vector<StateDTypes> all_state_dtypes() {
  std::vector<StateDTypes> all;
  for (const DType grad : {DType::F32, DType::BF16}) {
    for (const DType master : {DType::F32, DType::BF16}) {
      for (const DType moment : {DType::F32, DType::BF16}) all.push_back({grad, master, moment});
    }
  }
  return all;
}

struct Operands {
  explicit Operands(int64_t n, const StateDTypes& dtypes = {})
      : grad(dtypes.grad, 1, n, 0, 1, 50.0f),
        master(dtypes.master, 1, n, 0, 2),
        exp_avg(dtypes.moment, 1, n, 0, 3),
        exp_avg_sq(dtypes.moment, 1, n, 0, 4),
        param(n % 2 == 0 ? DType::BF16 : DType::F16, 1, n, 0, 5),
        partials(size_t((n + kNormChunk - 1) / kNormChunk), -1.0) {
    for (int64_t i = 0; i < n; ++i) exp_avg_sq.set(0, i, std::abs(exp_avg_sq.get(0, i)));
  }
  bool operator==(const Operands&) const = default;

  AdamWArgs adamw(bool has_param) {
    return {.grad_N = grad.row(),
            .master_N = master.row(),
            .exp_avg_N = exp_avg.row(),
            .exp_avg_sq_N = exp_avg_sq.row(),
            .param_N = has_param ? param.row() : TensorRef{},
            .lr = 0.01f,
            .weight_decay = 0.1f,
            .correction1 = 1.0f - std::pow(0.9f, 3.0f),
            .correction2 = 1.0f - std::pow(0.95f, 3.0f),
            .grad_scale = 0.125f,
            .rounding = rounding()};
  }
  SgdArgs sgd(bool has_momentum, bool has_param) {
    return {.grad_N = grad.row(),
            .master_N = master.row(),
            .momentum_N = has_momentum ? exp_avg.row() : TensorRef{},
            .param_N = has_param ? param.row() : TensorRef{},
            .lr = 0.01f,
            .momentum = 0.9f,
            .weight_decay = 0.1f,
            .grad_scale = 0.125f,
            .rounding = rounding()};
  }
  // The tensors are the columns from 7 to 59 of a matrix with 100, from the element 3 on.
  static RoundingWords rounding() { return {{11}, 5, 3, {7, 53, 100}}; }
  bool has_param_beside() { return master.ref().dtype == DType::F32; }
  SquaredNormArgs squared_norm() {
    return {grad.row(), {partials.data(), DType::F64, Shape{int64_t(partials.size())}}};
  }

  RandomMatrix grad, master, exp_avg, exp_avg_sq, param;
  std::vector<double> partials;
};

void expect_near_all(const Operands& got, const Operands& want) {
  expect_near(got.master, want.master, 1e-6, "master");
  expect_near(got.exp_avg, want.exp_avg, 1e-6, "exp_avg");
  expect_near(got.exp_avg_sq, want.exp_avg_sq, 1e-6, "exp_avg_sq");
  expect_near(got.param, want.param, 1e-6, "param");
}

// Calls body(operands, has_param) for all sizes and dtypes.
template <typename Body>
void for_every_state(Body&& body) {
  for (const StateDTypes& dtypes : all_state_dtypes()) {
    for (int64_t n : kParameterSizes) {
      SCOPED_TRACE(testing::Message() << name_of(dtypes.grad) << " " << name_of(dtypes.master)
                                      << " " << name_of(dtypes.moment) << " " << n);
      Operands start(n, dtypes);
      body(start, false);
      if (start.has_param_beside()) body(start, true);
    }
  }
}

TEST(Optimizer, AdamWAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_state([&](const Operands& start, bool has_param) {
    const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
      kernels.adamw(stream, o.adamw(has_param));
    };
    expect_near_all(same_bits_everywhere(teams, start, run), by_reference(teams, start, run));
  });
}

// Operands of an AdamW that copies what it updates.
struct CopiedOperands {
  explicit CopiedOperands(int64_t n, DType grad)
      : state(n, {.grad = grad}), copies(size_t(3 * n)) {}
  bool operator==(const CopiedOperands& other) const {
    return state == other.state && copies == other.copies && hashes == other.hashes;
  }
  // Runs with copies, which begin on a border, and notes their hashes.
  void run(const KernelTable& kernels, Stream& stream, bool has_param, int kept = 2) {
    AdamWArgs args = state.adamw(has_param);
    const int64_t n = args.grad_N.num_elements();
    const Buffer target = Buffer::allocate(3 * n * int64_t(sizeof(float)));
    float* const to = static_cast<float*>(target.data());
    BlockHash made[3];
    args.copies = {{to, &made[0]}, {to + n, &made[1]}, {to + 2 * n, &made[2]}, kept > 0, kept > 1};
    kernels.adamw(stream, args);
    end_stream_copies();
    std::memcpy(copies.data(), to, copies.size() * sizeof(float));
    for (int k = 0; k < 3; ++k) hashes.insert(hashes.end(), made[k].lanes, made[k].lanes + 8);
  }
  Operands state;
  std::vector<float> copies;
  std::vector<uint64_t> hashes;
};

// The update has the same bits with copies and without, also if it changes nothing in place, and
// the hashes are those of the copies.
TEST(Optimizer, AdamWCopiesAndHashesWhatItUpdates) {
  constexpr int64_t kElements = 6 * kHashBlockBytes / int64_t(sizeof(float));
  Teams teams;
  for (const DType grad : {DType::F32, DType::BF16}) {
    for (const int kept : {0, 1, 2}) {
      const bool has_param = kept != 1;
      const auto run = [&](const KernelTable& kernels, Stream& stream, CopiedOperands& o) {
        o.run(kernels, stream, has_param, kept);
      };
      const CopiedOperands start(kElements, grad);
      CopiedOperands got = same_bits_everywhere(teams, start, run);
      expect_near_all(got.state, by_reference(teams, start, run).state);
      Operands plain = start.state;
      cpu_kernels(supported_isas().back()).adamw(teams.of_1, plain.adamw(has_param));
      EXPECT_TRUE(got.state.param == plain.param);
      EXPECT_TRUE(got.state.master == (kept > 0 ? plain : start.state).master);
      EXPECT_TRUE(got.state.exp_avg == (kept > 1 ? plain : start.state).exp_avg);
      EXPECT_TRUE(got.state.exp_avg_sq == (kept > 1 ? plain : start.state).exp_avg_sq);
      size_t tensor = 0;
      for (RandomMatrix* live : {&plain.master, &plain.exp_avg, &plain.exp_avg_sq}) {
        const auto* bytes = static_cast<const std::byte*>(live->row().data);
        const float* copy = got.copies.data() + tensor * size_t(kElements);
        EXPECT_EQ(std::memcmp(copy, bytes, size_t(live->row().bytes())), 0);
        BlockHash hash;
        for (int64_t at = 0; at < live->row().bytes(); at += kHashBlockBytes) hash.add(bytes + at);
        EXPECT_TRUE(std::equal(hash.lanes, hash.lanes + 8, got.hashes.begin() + long(8 * tensor)));
        ++tensor;
      }
    }
  }
}

TEST(Optimizer, SgdAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_state([&](const Operands& start, bool has_param) {
    for (bool has_momentum : {false, true}) {
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        kernels.sgd(stream, o.sgd(has_momentum, has_param));
      };
      expect_near_all(same_bits_everywhere(teams, start, run), by_reference(teams, start, run));
    }
  });
}

TEST(Optimizer, MomentumAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_state([&](const Operands& start, bool) {
    const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
      kernels.momentum(stream, {.grad_N = o.grad.row(),
                                .momentum_N = o.exp_avg.row(),
                                .update_N = o.master.row(),
                                .momentum = 0.95f,
                                .grad_scale = 0.125f,
                                .rounding = Operands::rounding()});
    };
    expect_near_all(same_bits_everywhere(teams, start, run), by_reference(teams, start, run));
  });
}

struct Matrices {
  Matrices(DType dtype, int64_t rows, int64_t cols)
      : a(dtype, rows, cols, 3, 1), b(dtype, rows, cols, 5, 2), out(dtype, rows, cols, 0, 3) {}
  bool operator==(const Matrices&) const = default;
  RandomMatrix a, b, out;
};

TEST(Optimizer, WeightedSumAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>(1, 1), {7, 17}, {64, 33}, {300, 300}}) {
      for (const bool has_b : {false, true}) {
        for (const bool in_place : {false, true}) {
          const auto run = [&](const KernelTable& kernels, Stream& stream, Matrices& m) {
            kernels.weighted_sum(stream, {.a_MN = m.a.ref(),
                                          .b_MN = has_b ? m.b.ref() : MatrixRef{},
                                          .out_MN = in_place ? m.a.ref() : m.out.ref(),
                                          .a_factor = -4.7f,
                                          .b_factor = 2.0f,
                                          .diagonal = has_b ? 3.4f : 0.0f});
          };
          const Matrices start(dtype, rows, cols);
          const Matrices got = same_bits_everywhere(teams, start, run);
          const Matrices want = by_reference(teams, start, run);
          expect_near(got.a, want.a, 1e-6, "a");
          expect_near(got.out, want.out, 1e-6, "out");
        }
      }
    }
  }
}

TEST(Optimizer, SquaredNormAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_state([&](const Operands& start, bool) {
    const auto run = [](const KernelTable& kernels, Stream& stream, Operands& o) {
      kernels.squared_norm(stream, o.squared_norm());
    };
    const Operands got = same_bits_everywhere(teams, start, run);
    const Operands want = by_reference(teams, start, run);
    for (size_t p = 0; p < want.partials.size(); ++p) {
      EXPECT_NEAR(got.partials[p] / want.partials[p], 1.0, 1e-14);
    }
  });
}

struct ExactNorm {
  explicit ExactNorm(int64_t n, DType dtype = DType::F32) : grad(dtype, 1, n, 0, 1, 50.0f) {}
  bool operator==(const ExactNorm&) const = default;
  ExactSquaredNormArgs args() {
    return {grad.row(), {words.data(), DType::I64, Shape{kExactNormWords}}};
  }
  double value() const { return squared_norm_of(NormSum::Exact, words); }
  RandomMatrix grad;
  std::vector<int64_t> words = std::vector<int64_t>(kExactNormWords);
};

void expect_the_exact_norm(Teams& teams, DType dtype) {
  for (int64_t n : kParameterSizes) {
    const auto run = [](const KernelTable& kernels, Stream& stream, ExactNorm& norm) {
      kernels.exact_squared_norm(stream, norm.args());
    };
    // Limbs may be added in any order: the integer is the same, but its distribution over limbs may
    // differ.
    ExactNorm start(n, dtype), want = start;
    run(reference_kernels(), teams.of_1, want);
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += std::pow(double(start.grad.get(0, i)), 2.0);
    EXPECT_NEAR(want.value() / sum, 1.0, 1e-12);
    for (Isa isa : supported_isas()) {
      for (OwnStream* stream : {&teams.of_1, &teams.of_2}) {
        ExactNorm got = start;
        run(cpu_kernels(isa), *stream, got);
        EXPECT_EQ(got.value(), want.value()) << name_of(isa) << " " << n;
      }
    }
  }
}

TEST(Optimizer, ExactSquaredNormIsTheReferencesEverywhere) {
  Teams teams;
  expect_the_exact_norm(teams, DType::F32);
  expect_the_exact_norm(teams, DType::BF16);
}

// From the smallest to the largest square, and values whose square is not finite.
TEST(Optimizer, ExactSquaredNormSpansTheRangeOfFp32) {
  Teams teams;
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto norm_of = [&](std::vector<float> grad) {
    std::vector<int64_t> words(kExactNormWords);
    for (const KernelTable* kernels :
         {&reference_kernels(), &cpu_kernels(supported_isas().back())}) {
      std::fill(words.begin(), words.end(), 0);
      kernels->exact_squared_norm(teams.of_1,
                                  {{grad.data(), DType::F32, Shape{int64_t(grad.size())}},
                                   {words.data(), DType::I64, Shape{kExactNormWords}}});
    }
    return squared_norm_of(NormSum::Exact, words);
  };
  EXPECT_EQ(norm_of({}), 0.0);
  EXPECT_EQ(norm_of({0.0f, -0.0f}), 0.0);
  EXPECT_EQ(norm_of({kLeast}), std::pow(double(kLeast), 2.0));
  EXPECT_EQ(norm_of({-3.0f, 4.0f}), 25.0);
  EXPECT_EQ(norm_of({kMost}), std::pow(double(kMost), 2.0));
  EXPECT_EQ(norm_of(std::vector<float>(1 << 18, kMost)), std::pow(double(kMost), 2.0) * (1 << 18));
  EXPECT_EQ(norm_of({kMost, kLeast, 1.0f}), std::pow(double(kMost), 2.0));
  for (const float bad : {INFINITY, -INFINITY, NAN}) EXPECT_TRUE(std::isnan(norm_of({1.0f, bad})));
}

TensorRef part(const TensorRef& x, int64_t begin, int64_t count) {
  if (!x) return x;
  return {static_cast<char*>(x.data) + begin * size_of(x.dtype), x.dtype, Shape{count}};
}

// Shards of a parameter are updated separately, so no border may change the result.
TEST(Optimizer, AnySplitOfARangeLeavesTheSameBits) {
  Teams teams;
  for (const StateDTypes& dtypes : all_state_dtypes()) {
    for (int64_t border : {1, 17, 4096, 49'999}) {
      Operands whole(50'001, dtypes), split = whole;
      const bool has_param = whole.has_param_beside();
      const KernelTable& kernels = cpu_kernels(supported_isas().back());
      kernels.adamw(teams.of_2, whole.adamw(has_param));
      kernels.sgd(teams.of_2, whole.sgd(true, has_param));
      for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, border},
                                         std::pair<int64_t, int64_t>{border, 50'001 - border}}) {
        AdamWArgs adamw = split.adamw(has_param);
        SgdArgs sgd = split.sgd(true, has_param);
        adamw.rounding.first += begin;
        sgd.rounding.first += begin;
        for (TensorRef* x :
             {&adamw.grad_N, &adamw.master_N, &adamw.exp_avg_N, &adamw.exp_avg_sq_N, &adamw.param_N,
              &sgd.grad_N, &sgd.master_N, &sgd.momentum_N, &sgd.param_N}) {
          *x = part(*x, begin, count);
        }
        kernels.adamw(teams.of_1, adamw);
        kernels.sgd(teams.of_1, sgd);
      }
      EXPECT_TRUE(whole == split) << name_of(dtypes.master) << " cut at " << border;
    }
  }
}

// Every number is one of the two bf16 beside x; a bf16 stays, and the mean over all random bits is
// x.
TEST(StochasticRounding, TheMeanOverAllRandomBitsIsTheNumber) {
  for (const float x : {1.0f, -1.0f, 1.001f, -3.14159f, 0.9999f, 1e-30f, 1e-40f, 6.5e4f, 0.0f}) {
    double sum = 0.0;
    for (uint32_t random = 0; random < 1 << 16; ++random) {
      const float rounded = float(round_stochastically(x, random));
      EXPECT_LT(std::abs(rounded - x), std::abs(x) / 64 + 1e-40f);
      EXPECT_EQ(float(round_stochastically(rounded, random)), rounded);
      sum += rounded;
    }
    EXPECT_DOUBLE_EQ(sum / (1 << 16), x);
  }
  EXPECT_TRUE(std::isnan(float(round_stochastically(NAN, 0xffff))));
  EXPECT_EQ(float(round_stochastically(INFINITY, 0xffff)), INFINITY);
}

// Steps of which rounding to nearest would drop every one move the weights by their sum.
TEST(StochasticRounding, SmallStepsAddUpInWeightsOfBf16) {
  Teams teams;
  constexpr int64_t kN = 4096, kSteps = 200;
  RandomMatrix grad(DType::F32, 1, kN, 0, 1), master(DType::BF16, 1, kN, 0, 2);
  for (int64_t i = 0; i < kN; ++i) {
    grad.set(0, i, 1.0f);
    master.set(0, i, 1.0f);
  }
  const float lr = 1e-4f;  // a bf16 below 1 has steps of 1/256
  for (int64_t step = 1; step <= kSteps; ++step) {
    cpu_kernels(supported_isas().back())
        .sgd(teams.of_1, {.grad_N = grad.row(),
                          .master_N = master.row(),
                          .momentum_N = {},
                          .param_N = {},
                          .lr = lr,
                          .rounding = {{3}, uint64_t(step), 0, {}}});
  }
  double mean = 0.0;
  for (int64_t i = 0; i < kN; ++i) mean += master.get(0, i) / kN;
  const double spread = std::sqrt(double(kSteps) * lr / 256.0 / kN);  // of the mean
  EXPECT_NEAR(mean, 1.0 - double(kSteps) * lr, 5 * spread);
}

// Other updates and other elements have other bits.
TEST(StochasticRounding, BitsAreKeyedByUpdateAndElement) {
  Teams teams;
  const auto updated = [&](uint64_t update, int64_t first) {
    Operands o(1000, {DType::F32, DType::BF16, DType::BF16});
    AdamWArgs args = o.adamw(false);
    args.rounding.update = update;
    args.rounding.first = first;
    cpu_kernels(supported_isas().back()).adamw(teams.of_1, args);
    return o;
  };
  EXPECT_TRUE(updated(1, 0) == updated(1, 0));
  EXPECT_FALSE(updated(1, 0) == updated(2, 0));
  EXPECT_FALSE(updated(1, 0) == updated(1, 1));
}

// Without momentum and decay of the averages, the first step of AdamW is lr times the sign of the
// gradient.
TEST(Optimizer, AdamWsFirstStepIsTheSignOfTheGradient) {
  Teams teams;
  Operands o(1000);
  for (int64_t i = 0; i < 1000; ++i) {
    o.exp_avg.set(0, i, 0.0f);
    o.exp_avg_sq.set(0, i, 0.0f);
  }
  const Operands start = o;
  AdamWArgs args = o.adamw(false);
  args.weight_decay = 0.0f;
  args.correction1 = 1.0f - args.beta1;
  args.correction2 = 1.0f - args.beta2;
  cpu_kernels(supported_isas().back()).adamw(teams.of_1, args);
  for (int64_t i = 0; i < 1000; ++i) {
    const float step = std::copysign(args.lr, start.grad.get(0, i));
    EXPECT_NEAR(o.master.get(0, i), start.master.get(0, i) - step, 1e-6);
  }
}

}  // namespace
}  // namespace trireme
