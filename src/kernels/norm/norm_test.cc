#include "kernels/norm/norm.h"

#include "kernels/kernel_laws.h"
#include "kernels/norm/norm_cases.h"

namespace trireme {
namespace {

struct NormCase {
  NormKind kind = NormKind::Layer;
  DType dtype = DType::F32;
  NormShape shape{};
  bool has_gain = true;
  bool has_residual = true;
  DType grad = DType::F32;

  std::string name() const {
    return std::string(kind == NormKind::Layer ? "layer " : "rms ") + std::string(name_of(dtype)) +
           " " + std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
  }
};

struct Operands {
  explicit Operands(const NormCase& c)
      : x(c.dtype, c.shape.rows, c.shape.cols, 3, 1),
        gain(c.dtype, 1, c.shape.cols, 0, 2),
        bias(c.dtype, 1, c.shape.cols, 0, 3),
        y(c.dtype, c.shape.rows, c.shape.cols, 1, 4),
        mean(DType::F32, 1, c.shape.rows, 0, 5),
        rstd(DType::F32, 1, c.shape.rows, 0, 6),
        dy(c.dtype, c.shape.rows, c.shape.cols, 2, 7),
        dresidual(c.dtype, c.shape.rows, c.shape.cols, 0, 8),
        dx(c.dtype, c.shape.rows, c.shape.cols, 5, 9),
        dgain(c.grad, 1, c.shape.cols, 0, 10),
        dbias(c.grad, 1, c.shape.cols, 0, 11) {}
  bool operator==(const Operands&) const = default;

  RandomMatrix x, gain, bias, y, mean, rstd, dy, dresidual, dx, dgain, dbias;
};

NormForwardArgs forward_args(const NormCase& c, Operands& o) {
  const bool layer = c.kind == NormKind::Layer;
  return {.kind = c.kind,
          .x_TC = o.x,
          .gain_C = c.has_gain ? o.gain.row() : TensorRef{},
          .bias_C = layer && c.has_gain ? o.bias.row() : TensorRef{},
          .y_TC = o.y,
          .mean_T = layer ? o.mean.row() : TensorRef{},
          .rstd_T = o.rstd.row()};
}
NormBackwardInputArgs backward_input_args(const NormCase& c, Operands& o) {
  return {.kind = c.kind,
          .dy_TC = o.dy,
          .x_TC = o.x,
          .gain_C = c.has_gain ? o.gain.row() : TensorRef{},
          .mean_T = c.kind == NormKind::Layer ? o.mean.row() : TensorRef{},
          .rstd_T = o.rstd.row(),
          .dresidual_TC = c.has_residual ? o.dresidual.ref() : MatrixRef{},
          .dx_TC = o.dx};
}
NormBackwardWeightArgs backward_weight_args(const NormCase& c, Operands& o, Write write) {
  const bool layer = c.kind == NormKind::Layer;
  return {.kind = c.kind,
          .dy_TC = o.dy,
          .x_TC = o.x,
          .mean_T = layer ? o.mean.row() : TensorRef{},
          .rstd_T = o.rstd.row(),
          .dgain_C = o.dgain.row(),
          .dbias_C = layer ? o.dbias.row() : TensorRef{},
          .write = write};
}

template <typename Body>
void for_every_case(Body&& body) {
  for (NormKind kind : {NormKind::Layer, NormKind::Rms}) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const NormShape& shape : kNormShapes) {
        const bool present = shape.cols != 63;
        const DType grad = shape.rows % 2 == 0 ? DType::BF16 : DType::F32;
        const NormCase c{kind, dtype, shape, present, present, grad};
        SCOPED_TRACE(c.name());
        body(c);
      }
    }
  }
}

// Makes operands whose statistics are those of x.
Operands with_statistics(Teams& teams, const NormCase& c) {
  return by_reference(teams, Operands(c), [&](const KernelTable& kernels, Stream& s, Operands& o) {
    kernels.norm_forward(s, forward_args(c, o));
  });
}

TEST(Norm, ForwardAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const NormCase& c) {
    const auto run = [&](const KernelTable& kernels, Stream& s, Operands& o) {
      kernels.norm_forward(s, forward_args(c, o));
    };
    const Operands start(c);
    const Operands got = same_bits_everywhere(teams, start, run);
    const Operands want = by_reference(teams, start, run);
    // One column has no variance: rstd is 1 / sqrt(eps) and amplifies rounding errors.
    const double tolerance = c.shape.cols < 16 ? 1e-4 : 4e-6;
    expect_near(got.y, want.y, tolerance, "y");
    expect_near(got.mean, want.mean, 1e-6, "mean");
    expect_near(got.rstd, want.rstd, tolerance, "rstd");
  });
}

TEST(Norm, BackwardAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const NormCase& c) {
    const Operands start = with_statistics(teams, c);
    const auto input = [&](const KernelTable& kernels, Stream& s, Operands& o) {
      kernels.norm_backward_input(s, backward_input_args(c, o));
    };
    const double scale = c.shape.cols < 16 ? 300.0 : 10.0;  // rstd amplifies rounding errors
    expect_near(same_bits_everywhere(teams, start, input).dx, by_reference(teams, start, input).dx,
                1e-6 * scale, "dx");
    for (Write write : {Write::Overwrite, Write::Accumulate}) {
      const auto weight = [&](const KernelTable& kernels, Stream& s, Operands& o) {
        kernels.norm_backward_weight(s, backward_weight_args(c, o, write));
      };
      const Operands got = same_bits_everywhere(teams, start, weight);
      const Operands want = by_reference(teams, start, weight);
      expect_near(got.dgain, want.dgain, 1e-5, "dgain");
      expect_near(got.dbias, want.dbias, 1e-5, "dbias");
      if (c.kind != NormKind::Layer) continue;
      const auto bias_alone = [&](const KernelTable& kernels, Stream& s, Operands& o) {
        NormBackwardWeightArgs args = backward_weight_args(c, o, write);
        args.dgain_C = {};
        kernels.norm_backward_weight(s, args);
      };
      const Operands some = same_bits_everywhere(teams, start, bias_alone);
      expect_near(some.dgain, start.dgain, 0.0, "dgain");
      expect_near(some.dbias, got.dbias, 0.0, "dbias");
    }
  });
}

TEST(Norm, AccumulateIsOverwritePlusWhatWasThere) {
  Teams teams;
  const NormCase c{NormKind::Layer, DType::F32, {70, 513}};
  Operands once = with_statistics(teams, c), twice = once;
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  kernels.norm_backward_weight(teams.of_2, backward_weight_args(c, once, Write::Overwrite));
  kernels.norm_backward_weight(teams.of_2, backward_weight_args(c, twice, Write::Overwrite));
  kernels.norm_backward_weight(teams.of_2, backward_weight_args(c, twice, Write::Accumulate));
  for (int64_t col = 0; col < c.shape.cols; ++col) {
    EXPECT_EQ(twice.dgain.get(0, col), 2.0f * once.dgain.get(0, col));
    EXPECT_EQ(twice.dbias.get(0, col), 2.0f * once.dbias.get(0, col));
  }
}

TEST(Norm, ARowsResultDoesNotDependOnItsNeighbours) {
  Teams teams;
  const NormCase c{NormKind::Layer, DType::BF16, {33, 65}};
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  Operands whole = with_statistics(teams, c), parts = whole;
  kernels.norm_forward(teams.of_1, forward_args(c, whole));
  for (int64_t row = 0; row < c.shape.rows; ++row) {
    NormForwardArgs args = forward_args(c, parts);
    args.x_TC = rows_of(args.x_TC, row, 1);
    args.y_TC = rows_of(args.y_TC, row, 1);
    args.mean_T = {args.mean_T.as<float>() + row, DType::F32, Shape{1}};
    args.rstd_T = {args.rstd_T.as<float>() + row, DType::F32, Shape{1}};
    kernels.norm_forward(teams.of_1, args);
  }
  EXPECT_TRUE(whole == parts);
}

TEST(Norm, ResidualGradientMayBeTheResultItself) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    const NormCase c{NormKind::Layer, dtype, {33, 65}};
    const KernelTable& kernels = cpu_kernels(supported_isas().back());
    Operands apart = with_statistics(teams, c), aliased = apart;
    kernels.norm_backward_input(teams.of_2, backward_input_args(c, apart));
    NormBackwardInputArgs args = backward_input_args(c, aliased);
    args.dx_TC = args.dresidual_TC;
    kernels.norm_backward_input(teams.of_2, args);
    expect_near(aliased.dresidual, apart.dx, 0.0, "dx");
  }
}

// Compares d/dstep of sum(weights * y) along a random direction with the backward kernels.
TEST(Norm, ReferenceBackwardIsTheDerivativeOfForward) {
  Teams teams;
  for (NormKind kind : {NormKind::Layer, NormKind::Rms}) {
    const NormCase c{kind, DType::F32, {5, 16}, true, false};
    SCOPED_TRACE(c.name());
    Operands o = with_statistics(teams, c);
    norm_backward_input_ref(teams.of_1, backward_input_args(c, o));
    norm_backward_weight_ref(teams.of_1, backward_weight_args(c, o, Write::Overwrite));
    const auto slope = [&](RandomMatrix Operands::*param) {
      const MatrixRef extents = (o.*param).ref();
      const RandomMatrix direction(DType::F32, extents.rows, extents.cols, 0, 77);
      const double want = derivative([&](double step) {
        Operands at = o;
        at.*param = moved(o.*param, direction, step);
        norm_forward_ref(teams.of_1, forward_args(c, at));
        return inner_product(at.y, o.dy);
      });
      return std::pair(want, direction);
    };
    const auto [x_slope, x_direction] = slope(&Operands::x);
    EXPECT_NEAR(inner_product(x_direction, o.dx), x_slope, 2e-3);
    const auto [gain_slope, gain_direction] = slope(&Operands::gain);
    EXPECT_NEAR(inner_product(gain_direction, o.dgain), gain_slope, 1e-3);
    if (kind == NormKind::Rms) continue;
    const auto [bias_slope, bias_direction] = slope(&Operands::bias);
    EXPECT_NEAR(inner_product(bias_direction, o.dbias), bias_slope, 1e-3);
  }
}

TEST(Norm, AWrongShapeNamesTheArgument) {
  Teams teams;
  const NormCase c{NormKind::Layer, DType::F32, {5, 16}};
  Operands o(c);
  NormForwardArgs args = forward_args(c, o);
  args.y_TC.cols = 15;
  for (Isa isa : supported_isas()) {
    EXPECT_THROW(cpu_kernels(isa).norm_forward(teams.of_1, args), ContractError);
  }
  EXPECT_THROW(norm_forward_ref(teams.of_1, args), ContractError);
}

}  // namespace
}  // namespace trireme
