#include "kernels/rope/rope.h"

#include "kernels/kernel_laws.h"
#include "kernels/rope/rope_cases.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const RopeShape& shape)
      : x(dtype, shape.rows, shape.num_heads * shape.head_dim, 3, 1),
        cos(DType::F32, shape.seq_len, shape.head_dim / 2, 0, 2),
        sin(DType::F32, shape.seq_len, shape.head_dim / 2, 0, 3) {
    for (int64_t s = 0; s < shape.seq_len; ++s) {
      for (int64_t j = 0; j < shape.head_dim / 2; ++j) {
        const double angle = double(s) * std::pow(10000.0, -2.0 * double(j) / shape.head_dim);
        cos.set(s, j, float(std::cos(angle)));
        sin.set(s, j, float(std::sin(angle)));
      }
    }
  }
  bool operator==(const Operands&) const = default;

  RopeArgs args(const RopeShape& shape, Rotation rotation) {
    const Shape table{shape.seq_len, shape.head_dim / 2};
    return {.rotation = rotation,
            .x_T_HD = x,
            .head_dim = shape.head_dim,
            .cos_SD2 = {cos.ref().data, DType::F32, table},
            .sin_SD2 = {sin.ref().data, DType::F32, table},
            .seq_len = shape.seq_len};
  }

  RandomMatrix x, cos, sin;
};

TEST(Rope, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const RopeShape& shape : kRopeShapes) {
      for (Rotation rotation : {Rotation::Forward, Rotation::Inverse}) {
        SCOPED_TRACE("head_dim " + std::to_string(shape.head_dim));
        const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
          kernels.rope(stream, o.args(shape, rotation));
        };
        const Operands start(dtype, shape);
        const Operands got = same_bits_everywhere(teams, start, run);
        expect_near(got.x, by_reference(teams, start, run).x, 1e-6, "x");
      }
    }
  }
}

// A row of a stated position is turned as a row that has this position by its place.
TEST(Rope, StatedPositionsTurnEachRowByItsOwn) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (const RopeShape& shape : kRopeShapes) {
      const int64_t num_positions = shape.seq_len;
      std::vector<int32_t> positions;
      for (int64_t t = 0; t < shape.rows; ++t) positions.push_back(t * t % num_positions);
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        RopeArgs args = o.args(shape, Rotation::Forward);
        args.position_T = {positions.data(), DType::I32, Shape{shape.rows}};
        kernels.rope(stream, args);
      };
      const Operands start(dtype, shape);
      const Operands got = same_bits_everywhere(teams, start, run);
      expect_near(got.x, by_reference(teams, start, run).x, 1e-6, "x");
      Operands one_by_one = start;
      for (int64_t t = 0; t < shape.rows; ++t) {
        RopeArgs args = one_by_one.args(shape, Rotation::Forward);
        args.x_T_HD = rows_of(args.x_T_HD, t, 1);
        const int64_t half = shape.head_dim / 2, first = positions[size_t(t)] * half;
        args.cos_SD2 = {args.cos_SD2.as<float>() + first, DType::F32, Shape{1, half}};
        args.sin_SD2 = {args.sin_SD2.as<float>() + first, DType::F32, Shape{1, half}};
        cpu_kernels(supported_isas().back()).rope(teams.of_1, args);
      }
      EXPECT_TRUE(one_by_one == got);
      positions.back() = int32_t(num_positions);
      Operands outside = start;
      EXPECT_THROW(run(reference_kernels(), teams.of_1, outside), ContractError);
    }
  }
}

TEST(Rope, InverseTurnsBack) {
  Teams teams;
  for (const RopeShape& shape : kRopeShapes) {
    Operands o(DType::F32, shape);
    const Operands start = o;
    rope_ref(teams.of_1, o.args(shape, Rotation::Forward));
    rope_ref(teams.of_1, o.args(shape, Rotation::Inverse));
    expect_near(o.x, start.x, 1e-6, "x");
  }
}

// <rotate(x), y> = <x, rotate back(y)>, so the inverse is the backward pass.
TEST(Rope, InverseIsTheAdjoint) {
  Teams teams;
  for (const RopeShape& shape : kRopeShapes) {
    Operands x(DType::F32, shape), y = x;
    y.x = RandomMatrix(DType::F32, shape.rows, shape.num_heads * shape.head_dim, 3, 44);
    const Operands x0 = x, y0 = y;
    rope_ref(teams.of_1, x.args(shape, Rotation::Forward));
    rope_ref(teams.of_1, y.args(shape, Rotation::Inverse));
    EXPECT_NEAR(inner_product(x.x, y0.x), inner_product(x0.x, y.x), 1e-3);
  }
}

// The product of a query and a key does not change if both move by the same number of positions.
TEST(Rope, ProductsDependOnTheDistanceAlone) {
  Teams teams;
  const RopeShape shape{8, 8, 1, 32};
  Operands q(DType::F32, shape), k(DType::F32, shape);
  for (int64_t t = 0; t < 8; ++t) {
    for (int64_t d = 0; d < 32; ++d) {
      q.x.set(t, d, q.x.get(0, d));
      k.x.set(t, d, q.x.get(0, 31 - d));
    }
  }
  rope_ref(teams.of_1, q.args(shape, Rotation::Forward));
  rope_ref(teams.of_1, k.args(shape, Rotation::Forward));
  const auto product = [&](int64_t query, int64_t key) {
    double sum = 0.0;
    for (int64_t d = 0; d < 32; ++d) sum += q.x.get(query, d) * k.x.get(key, d);
    return sum;
  };
  for (int64_t t = 3; t < 8; ++t) EXPECT_NEAR(product(t, t - 2), product(3, 1), 1e-5);
}

}  // namespace
}  // namespace trireme
