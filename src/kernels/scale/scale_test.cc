#include "kernels/scale/scale.h"

#include "kernels/kernel_laws.h"
#include "kernels/scale/scale_cases.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, ScaleShape shape, DType grad = DType::F32)
      : x(dtype, shape.rows, shape.cols, 3, 1),
        gain(dtype, 1, shape.cols, 0, 2),
        y(dtype, shape.rows, shape.cols, 1, 3),
        dy(dtype, shape.rows, shape.cols, 2, 4),
        addend(dtype, shape.rows, shape.cols, 4, 5),
        dx(dtype, shape.rows, shape.cols, 5, 6),
        dgain(grad, 1, shape.cols, 0, 7) {}
  bool operator==(const Operands&) const = default;

  ScaleForwardArgs forward() { return {x, gain.row(), y}; }
  ScaleBackwardInputArgs backward_input(bool has_addend) {
    return {dy, gain.row(), has_addend ? addend.ref() : MatrixRef{}, dx};
  }
  ScaleBackwardWeightArgs backward_weight(Write write) { return {dy, x, dgain.row(), write}; }

  RandomMatrix x, gain, y, dy, addend, dx, dgain;
};

template <typename Body>
void for_every_case(Body&& body) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const ScaleShape& shape : kScaleShapes) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(shape.rows) + " x " +
                   std::to_string(shape.cols));
      for (DType grad : {DType::F32, DType::BF16}) body(Operands(dtype, shape, grad));
    }
  }
}

// A product in fp32 is the product in double, rounded once; so forward has no tolerance.
TEST(Scale, ForwardHasTheBitsOfTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
      kernels.scale_forward(stream, o.forward());
    };
    EXPECT_TRUE(same_bits_everywhere(teams, start, run) == by_reference(teams, start, run));
  });
}

TEST(Scale, BackwardInputAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    for (bool has_addend : {false, true}) {
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        kernels.scale_backward_input(stream, o.backward_input(has_addend));
      };
      // The sum in double may be rounded to the other neighbour in fp32.
      expect_near(same_bits_everywhere(teams, start, run).dx, by_reference(teams, start, run).dx,
                  2e-7, "dx");
    }
  });
}

TEST(Scale, BackwardWeightAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    for (Write write : {Write::Overwrite, Write::Accumulate}) {
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        kernels.scale_backward_weight(stream, o.backward_weight(write));
      };
      // Sums of up to 1100 products in fp32.
      expect_near(same_bits_everywhere(teams, start, run).dgain,
                  by_reference(teams, start, run).dgain, 4e-6, "dgain");
    }
  });
}

TEST(Scale, AccumulateIsOverwritePlusWhatWasThere) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    Operands once(DType::BF16, {70, 513}), twice = once;
    kernels.scale_backward_weight(teams.of_2, once.backward_weight(Write::Overwrite));
    kernels.scale_backward_weight(teams.of_2, twice.backward_weight(Write::Overwrite));
    kernels.scale_backward_weight(teams.of_2, twice.backward_weight(Write::Accumulate));
    for (int64_t col = 0; col < 513; ++col) {
      EXPECT_EQ(twice.dgain.get(0, col), 2.0f * once.dgain.get(0, col));
    }
  }
}

// The order of the sum over tokens depends on T alone, so a shard of the channels has the bits of
// the whole.
TEST(Scale, AChannelDoesNotDependOnItsNeighbours) {
  Teams teams;
  const auto channels_of = [](const TensorRef& x_C, int64_t begin, int64_t count) {
    return TensorRef{static_cast<char*>(x_C.data) + begin * size_of(x_C.dtype), x_C.dtype,
                     Shape{count}};
  };
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    Operands whole(DType::BF16, {100, 67}), parts = whole;
    kernels.scale_forward(teams.of_1, whole.forward());
    kernels.scale_backward_input(teams.of_1, whole.backward_input(true));
    kernels.scale_backward_weight(teams.of_1, whole.backward_weight(Write::Accumulate));
    for (int64_t col = 0; col < 67; col += 5) {
      const int64_t count = std::min<int64_t>(5, 67 - col);
      const TensorRef gain_C = channels_of(parts.gain.row(), col, count);
      const MatrixRef x_TC = cols_of(parts.x, col, count), dy_TC = cols_of(parts.dy, col, count);
      kernels.scale_forward(teams.of_2, {x_TC, gain_C, cols_of(parts.y, col, count)});
      kernels.scale_backward_input(teams.of_2, {dy_TC, gain_C, cols_of(parts.addend, col, count),
                                                cols_of(parts.dx, col, count)});
      kernels.scale_backward_weight(
          teams.of_2, {dy_TC, x_TC, channels_of(parts.dgain.row(), col, count), Write::Accumulate});
    }
    EXPECT_TRUE(whole == parts) << name_of(isa);
  }
}

TEST(Scale, MayOverwriteWhatItReads) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      Operands apart(dtype, {33, 65}), over_addend = apart, over_dy = apart;
      kernels.scale_forward(teams.of_2, apart.forward());
      kernels.scale_backward_input(teams.of_2, apart.backward_input(true));

      ScaleForwardArgs forward = over_dy.forward();
      forward.y_TC = forward.x_TC;
      kernels.scale_forward(teams.of_2, forward);
      expect_near(over_dy.x, apart.y, 0.0, "y over x");

      ScaleBackwardInputArgs backward = over_addend.backward_input(true);
      backward.dx_TC = backward.addend_TC;
      kernels.scale_backward_input(teams.of_2, backward);
      expect_near(over_addend.addend, apart.dx, 0.0, "dx over addend");

      backward = over_dy.backward_input(true);
      backward.dx_TC = backward.dy_TC;
      kernels.scale_backward_input(teams.of_2, backward);
      expect_near(over_dy.dy, apart.dx, 0.0, "dx over dy");
    }
  }
}

// d/dstep of sum(dy * y) along a random direction, against the backward kernels.
TEST(Scale, ReferenceBackwardIsTheDerivativeOfForward) {
  Teams teams;
  Operands o(DType::F32, {5, 15});
  scale_backward_input_ref(teams.of_1, o.backward_input(false));
  scale_backward_weight_ref(teams.of_1, o.backward_weight(Write::Overwrite));
  const auto expect_slope = [&](RandomMatrix Operands::*input, RandomMatrix Operands::*gradient) {
    const MatrixRef extents = (o.*input).ref();
    const RandomMatrix direction(DType::F32, extents.rows, extents.cols, 0, 77);
    const double slope = derivative([&](double step) {
      Operands at = o;
      at.*input = moved(o.*input, direction, step);
      scale_forward_ref(teams.of_1, at.forward());
      return inner_product(at.y, o.dy);
    });
    EXPECT_NEAR(inner_product(direction, o.*gradient), slope, 1e-4);
  };
  expect_slope(&Operands::x, &Operands::dx);
  expect_slope(&Operands::gain, &Operands::dgain);
}

template <typename Args>
void expect_refused(Teams& teams, void (*KernelTable::*kernel)(Stream&, const Args&),
                    const Args& args, const std::string& argument) {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
  for (const KernelTable* kernels : tables) {
    try {
      (kernels->*kernel)(teams.of_1, args);
      ADD_FAILURE() << kernels->name << " took a wrong " << argument;
    } catch (const ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(argument + " is"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Scale, AWrongShapeOrDtypeNamesTheArgument) {
  Teams teams;
  Operands o(DType::BF16, {5, 16}), other(DType::F32, {5, 16}), narrow(DType::BF16, {5, 15});
  Operands half(DType::F16, {5, 16});

  ScaleForwardArgs forward = o.forward();
  forward.gain_C = other.gain.row();
  expect_refused(teams, &KernelTable::scale_forward, forward, "gain");
  forward = o.forward();
  forward.y_TC = narrow.y;
  expect_refused(teams, &KernelTable::scale_forward, forward, "y");

  ScaleBackwardInputArgs input = o.backward_input(true);
  input.gain_C = narrow.gain.row();
  expect_refused(teams, &KernelTable::scale_backward_input, input, "gain");
  input = o.backward_input(true);
  input.addend_TC = other.addend;
  expect_refused(teams, &KernelTable::scale_backward_input, input, "addend");
  input = o.backward_input(true);
  input.dx_TC = narrow.dx;
  expect_refused(teams, &KernelTable::scale_backward_input, input, "dx");

  ScaleBackwardWeightArgs weight = o.backward_weight(Write::Overwrite);
  weight.dy_TC = rows_of(weight.dy_TC, 0, 4);
  expect_refused(teams, &KernelTable::scale_backward_weight, weight, "dy");
  weight = o.backward_weight(Write::Overwrite);
  weight.dgain_C = half.gain.row();
  expect_refused(teams, &KernelTable::scale_backward_weight, weight, "dgain");
}

}  // namespace
}  // namespace trireme
