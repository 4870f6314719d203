#include "kernels/convolution/convolution.h"

#include "kernels/convolution/convolution_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct ConvolutionCase {
  DType dtype;
  ConvolutionShape shape;
  std::string name() const {
    const ImageWindow& w = shape.window;
    return std::string(name_of(dtype)) + " " + std::to_string(w.images) + " of " +
           std::to_string(w.height) + " x " + std::to_string(w.width) + ", window " +
           std::to_string(w.size) + "/" + std::to_string(w.stride) + "+" +
           std::to_string(w.padding) + ", band of " + std::to_string(w.band_rows) + "+" +
           std::to_string(w.band_padding) + ", " + std::to_string(shape.channels) + " to " +
           std::to_string(shape.filters) + " in " + std::to_string(shape.groups);
  }
};

struct Operands {
  explicit Operands(const ConvolutionCase& c, Write write = Write::Overwrite)
      : Operands(c, c.shape, c.shape.window, write) {}
  Operands(const ConvolutionCase& c, const ConvolutionShape& s, const ImageWindow& w, Write write)
      : write(write),
        x(c.dtype, w.in_pixels(), s.channels, 3, 1),
        weight(c.dtype, s.filters, elements(s), 1, 2),
        bias(c.dtype, 1, s.filters, 0, 3),
        y(c.dtype, w.out_pixels(), s.filters, 2, 4),
        dy(c.dtype, w.out_pixels(), s.filters, 5, 5),
        dx(c.dtype, w.in_pixels(), s.channels, 1, 6),
        dw(DType::F32, s.filters, elements(s), 2, 7),
        dw_bf16(DType::BF16, s.filters, elements(s), 2, 8) {}
  static int64_t elements(const ConvolutionShape& s) {
    return s.window.size * s.window.size * s.channels / s.groups;
  }
  bool operator==(const Operands& o) const {
    return x == o.x && y == o.y && dx == o.dx && dw == o.dw && dw_bf16 == o.dw_bf16;
  }
  Write write;
  RandomMatrix x, weight, bias, y, dy, dx, dw, dw_bf16;
};

void forward(const KernelTable& kernels, Stream& stream, const ConvolutionShape& s, Operands& o,
             bool has_bias = true) {
  kernels.convolution_forward(
      stream, {s.window, s.groups, o.x, o.weight, has_bias ? o.bias.row() : TensorRef{}, o.y});
}
// Scratch of a call, 64-byte aligned, filled with NaN.
Tensor scratch_of(const ConvolutionShape& s, DType dtype) {
  const int64_t bytes =
      convolution_scratch(s.window, s.groups, s.channels, s.filters, dtype).bytes();
  Tensor scratch(DType::U8, {bytes});
  if (bytes > 0) std::memset(scratch.ref().data, 0xff, size_t(bytes));
  return scratch;
}
void backward_input(const KernelTable& kernels, Stream& stream, const ConvolutionShape& s,
                    Operands& o) {
  const Tensor scratch = scratch_of(s, o.x.ref().dtype);
  kernels.convolution_backward_input(stream,
                                     {s.window, s.groups, o.dy, o.weight, o.dx, scratch, o.write});
}
void backward_weight(const KernelTable& kernels, Stream& stream, const ConvolutionShape& s,
                     Operands& o, RandomMatrix& dw) {
  kernels.convolution_backward_weight(stream, {s.window, s.groups, o.dy, o.x, dw, o.write});
}
void all_of(const KernelTable& kernels, Stream& stream, const ConvolutionShape& s, Operands& o) {
  forward(kernels, stream, s, o);
  backward_input(kernels, stream, s, o);
  backward_weight(kernels, stream, s, o, o.dw);
  backward_weight(kernels, stream, s, o, o.dw_bf16);
}

template <typename Body>
void for_every_case(Body&& body) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const ConvolutionShape& shape : kConvolutionShapes) {
      const ConvolutionCase c{dtype, shape};
      SCOPED_TRACE(c.name());
      body(c);
    }
  }
}

TEST(Convolution, AgreesWithReferenceAndBitsDoNotDependOnThreads) {
  Teams teams;
  for_every_case([&](const ConvolutionCase& c) {
    for (Write write : {Write::Overwrite, Write::Accumulate}) {
      const Operands start(c, write);
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        all_of(kernels, stream, c.shape, o);
      };
      Operands want = by_reference(teams, start, run);
      for (Isa isa : supported_isas()) {
        Operands got = start, by_two = start;
        run(cpu_kernels(isa), teams.of_1, got);
        run(cpu_kernels(isa), teams.of_2, by_two);
        EXPECT_TRUE(got == by_two) << name_of(isa);
        const double tolerance =
            4e-6 * std::sqrt(double(Operands::elements(c.shape) + c.shape.window.out_pixels()));
        expect_near(got.y, want.y, tolerance, "y");
        expect_near(got.dx, want.dx, tolerance, "dx");
        expect_near(got.dw, want.dw, tolerance, "dw");
        expect_near(got.dw_bf16, want.dw_bf16, tolerance, "dw in bf16");
      }
    }
  });
}

// The backward pass is the adjoint of the forward pass, over the input and over the filters.
TEST(Convolution, BackwardIsTheAdjoint) {
  Teams teams;
  for (const ConvolutionShape& shape : kConvolutionShapes) {
    const ConvolutionCase c{DType::F32, shape};
    SCOPED_TRACE(c.name());
    for (Isa isa : supported_isas()) {
      const KernelTable& kernels = cpu_kernels(isa);
      Operands o(c);
      forward(kernels, teams.of_1, shape, o, false);
      backward_input(kernels, teams.of_1, shape, o);
      backward_weight(kernels, teams.of_1, shape, o, o.dw);
      const double sum = inner_product(o.y, o.dy);
      const double bound = 1e-5 * double(o.y.rows() * o.y.cols()) + 1e-5;
      EXPECT_NEAR(inner_product(o.x, o.dx), sum, bound);
      EXPECT_NEAR(inner_product(o.weight, o.dw), sum, bound);
    }
  }
}

// So the pixels depend neither on the size of a micro-batch nor on the images that a rank has.
TEST(Convolution, BitsOfAnImageDoNotDependOnTheOthers) {
  Teams teams;
  ConvolutionShape all = {{3, 9, 8, 3, 2, 1}, 20, 24};
  ConvolutionShape one = all;
  one.window.images = 1;
  for (Isa isa : supported_isas()) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      const KernelTable& kernels = cpu_kernels(isa);
      Operands want({dtype, all});
      forward(kernels, teams.of_2, all, want);
      backward_input(kernels, teams.of_2, all, want);
      Operands got({dtype, all});
      const Tensor scratch = scratch_of(one, dtype);
      const int64_t in = one.window.in_pixels(), out = one.window.out_pixels();
      for (int64_t image = 0; image < 3; ++image) {
        kernels.convolution_forward(
            teams.of_2, {one.window, 1, rows_of(got.x, image * in, in), got.weight, got.bias.row(),
                         rows_of(got.y, image * out, out)});
        kernels.convolution_backward_input(
            teams.of_2, {one.window, 1, rows_of(got.dy, image * out, out), got.weight,
                         rows_of(got.dx, image * in, in), scratch});
      }
      EXPECT_TRUE(got.y == want.y && got.dx == want.dx) << name_of(isa) << name_of(dtype);
    }
  }
}

// Has several tiles, panels and blocks of k.
TEST(Convolution, ALargeConvolutionOfSmallIntegersIsExact) {
  Teams teams;
  const ConvolutionShape shape{{2, 20, 19, 3, 1, 1}, 72, 80};
  for (Isa isa : supported_isas()) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      const ConvolutionCase c{dtype, shape};
      Operands o(c);
      for (RandomMatrix* m : {&o.x, &o.weight, &o.dy}) {
        for (int64_t i = 0; i < m->rows() * m->cols(); ++i) {
          m->set(i / m->cols(), i % m->cols(), float(i * 7 % 11 % 3 - 1));
        }
      }
      forward(cpu_kernels(isa), teams.of_2, shape, o, false);
      backward_weight(cpu_kernels(isa), teams.of_2, shape, o, o.dw);
      backward_input(cpu_kernels(isa), teams.of_2, shape, o);
      const double sum = inner_product(o.weight, o.dw);
      double unrounded = 0.0;  // <x, dx> and <y, dy> are exact in fp32
      if (dtype == DType::F32) {
        unrounded = inner_product(o.y, o.dy);
        EXPECT_EQ(sum, unrounded);
        EXPECT_EQ(sum, inner_product(o.x, o.dx));
      }
      const ImageWindow& w = shape.window;
      for (int64_t q = 5; q < w.out_pixels(); q += 97) {
        for (int64_t f = 0; f < shape.filters; f += 13) {
          float want = 0.0f;
          for (int64_t k = 0; k < o.weight.cols(); ++k) {
            const int64_t y = q / 19 % 20 + k / 72 / 3 - 1, x = q % 19 + k / 72 % 3 - 1;
            if (y < 0 || y >= 20 || x < 0 || x >= 19) continue;
            want += o.weight.get(f, k) * o.x.get((q / 380 * 20 + y) * 19 + x, k % 72);
          }
          ASSERT_EQ(o.y.get(q, f), dtype == DType::F32 ? want : float(bf16(want)));
        }
      }
    }
  }
}

// torchvision's: 25,557,032 parameters less 2,049,000 of the last layer and 53,120 of batch norms,
// and the weights of AlexNet's five convolutions.
TEST(Convolution, TheBenchmarkHasThePublishedConvolutions) {
  std::vector<int64_t> multiplications, weights;
  for (const ConvolutionNet& net : convolution_nets()) {
    multiplications.push_back(0);
    weights.push_back(0);
    for (const auto& [s, count] : net.layers) {
      const int64_t of_layer = count * s.filters * Operands::elements(s);
      weights.back() += of_layer;
      multiplications.back() += of_layer * s.window.out_pixels() / s.window.images;
    }
  }
  EXPECT_EQ(weights, (std::vector<int64_t>{23'454'912, 2'468'544}));
  EXPECT_EQ(multiplications, (std::vector<int64_t>{4'087'136'256, 655'566'528}));
}

TEST(Convolution, WrongShapesAreRefused) {
  Teams teams;
  const ConvolutionShape good{{2, 5, 5, 3, 1, 1}, 4, 6};
  const ConvolutionCase c{DType::F32, good};
  const auto refused = [&](auto change) {
    ConvolutionShape s = good;
    change(s);
    Operands o(c);
    EXPECT_THROW(forward(cpu_kernels(Isa::Avx2), teams.of_1, s, o), ContractError);
    EXPECT_THROW(backward_weight(cpu_kernels(Isa::Avx2), teams.of_1, s, o, o.dw), ContractError);
  };
  refused([](ConvolutionShape& s) { s.window.images = 1; });
  refused([](ConvolutionShape& s) { s.window.padding = 3; });
  refused([](ConvolutionShape& s) { s.window.size = 8; });
  refused([](ConvolutionShape& s) { s.window.stride = 0; });
  refused([](ConvolutionShape& s) { s.window.band_rows = 9; });
  refused([](ConvolutionShape& s) { s.window.band_rows = s.window.band_padding = 3; });
  refused([](ConvolutionShape& s) { s.groups = 3; });
}

}  // namespace
}  // namespace trireme
