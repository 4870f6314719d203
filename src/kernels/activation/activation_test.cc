#include "kernels/activation/activation.h"

#include "kernels/activation/activation_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

constexpr Activation kKinds[] = {Activation::GeluTanh, Activation::GeluErf, Activation::Relu,
                                 Activation::Relu2};

struct Operands {
  Operands(DType dtype, ActivationShape shape)
      : x(dtype, shape.rows, shape.cols, 3, 1, 6.0f),
        up(dtype, shape.rows, shape.cols, 1, 2),
        y(dtype, shape.rows, shape.cols, 0, 3),
        dy(dtype, shape.rows, shape.cols, 2, 4),
        dx(dtype, shape.rows, shape.cols, 5, 5),
        dup(dtype, shape.rows, shape.cols, 1, 6) {}
  bool operator==(const Operands&) const = default;

  ActivationForwardArgs forward(Activation kind) { return {kind, x, y}; }
  ActivationBackwardArgs backward(Activation kind) { return {kind, dy, x, dx}; }
  SwigluForwardArgs swiglu_forward() { return {x, up, y}; }
  SwigluBackwardArgs swiglu_backward() { return {dy, x, up, dx, dup}; }

  RandomMatrix x, up, y, dy, dx, dup;  // x is the gate of SwiGLU
};

template <typename Body>
void for_every_case(Body&& body) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const ActivationShape& shape : kActivationShapes) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(shape.rows) + " x " +
                   std::to_string(shape.cols));
      body(Operands(dtype, shape));
    }
  }
}

TEST(Activation, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    for (Activation kind : kKinds) {
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        kernels.activation_forward(stream, o.forward(kind));
        kernels.activation_backward(stream, o.backward(kind));
      };
      const Operands got = same_bits_everywhere(teams, start, run);
      const Operands want = by_reference(teams, start, run);
      expect_near(got.y, want.y, 1e-6, "y");
      expect_near(got.dx, want.dx, 3e-6, "dx");
    }
  });
}

TEST(Activation, SwigluAgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
      kernels.swiglu_forward(stream, o.swiglu_forward());
      kernels.swiglu_backward(stream, o.swiglu_backward());
    };
    const Operands got = same_bits_everywhere(teams, start, run);
    const Operands want = by_reference(teams, start, run);
    expect_near(got.y, want.y, 1e-6, "y");
    expect_near(got.dx, want.dx, 2e-6, "dgate");
    expect_near(got.dup, want.dup, 1e-6, "dup");
  });
}

TEST(Activation, MayOverwriteWhatItReads) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    for (Activation kind : kKinds) {
      Operands apart(DType::BF16, {33, 65}), aliased = apart;
      kernels.activation_forward(teams.of_2, apart.forward(kind));
      kernels.activation_backward(teams.of_2, apart.backward(kind));
      kernels.activation_backward(teams.of_2, {kind, aliased.dy, aliased.x, aliased.dy});
      kernels.activation_forward(teams.of_2, {kind, aliased.x, aliased.x});
      expect_near(aliased.x, apart.y, 0.0, "y");
      expect_near(aliased.dy, apart.dx, 0.0, "dx");
    }
  }
}

// The result of an element does not depend on its position in a vector.
TEST(Activation, AnElementDoesNotDependOnItsPlace) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (Activation kind : kKinds) {
      Operands whole(DType::F32, {2, 67}), parts = whole;
      cpu_kernels(isa).activation_forward(teams.of_1, whole.forward(kind));
      for (int64_t col = 0; col < 67; col += 5) {
        const int64_t count = std::min<int64_t>(5, 67 - col);
        cpu_kernels(isa).activation_forward(
            teams.of_1, {kind, cols_of(parts.x, col, count), cols_of(parts.y, col, count)});
      }
      EXPECT_TRUE(whole == parts);
    }
  }
}

TEST(Activation, ReferenceBackwardIsTheDerivativeOfForward) {
  Teams teams;
  const RandomMatrix direction(DType::F32, 5, 15, 0, 99);
  for (Activation kind : kKinds) {
    Operands o(DType::F32, {5, 15});
    activation_backward_ref(teams.of_1, o.backward(kind));
    const double slope = derivative([&](double step) {
      Operands at = o;
      at.x = moved(o.x, direction, step);
      activation_forward_ref(teams.of_1, at.forward(kind));
      return inner_product(at.y, o.dy);
    });
    // A corner inside a step spoils the difference of that element: of a ReLU, or of the slope of
    // its square.
    const double corner = kind == Activation::Relu ? 0.1 : kind == Activation::Relu2 ? 1e-3 : 2e-4;
    EXPECT_NEAR(inner_product(direction, o.dx), slope, corner);
  }
}

TEST(Activation, ReferenceSwigluBackwardIsTheDerivativeOfForward) {
  Teams teams;
  const RandomMatrix direction(DType::F32, 5, 15, 0, 99);
  Operands o(DType::F32, {5, 15});
  swiglu_backward_ref(teams.of_1, o.swiglu_backward());
  const auto slope = [&](RandomMatrix Operands::*input) {
    return derivative([&](double step) {
      Operands at = o;
      at.*input = moved(o.*input, direction, step);
      swiglu_forward_ref(teams.of_1, at.swiglu_forward());
      return inner_product(at.y, o.dy);
    });
  };
  EXPECT_NEAR(inner_product(direction, o.dx), slope(&Operands::x), 2e-4);
  EXPECT_NEAR(inner_product(direction, o.dup), slope(&Operands::up), 2e-4);
}

TEST(Activation, NotANumberStaysOne) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (Activation kind : kKinds) {
      Operands o(DType::F32, {1, 17});
      o.x.set(0, 3, NAN);
      cpu_kernels(isa).activation_forward(teams.of_1, o.forward(kind));
      EXPECT_TRUE(std::isnan(o.y.get(0, 3)));
    }
  }
}

}  // namespace
}  // namespace trireme
