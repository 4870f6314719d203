#include "kernels/pool/pool.h"

#include "kernels/kernel_laws.h"
#include "kernels/pool/pool_cases.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const PoolShape& s)
      : x(dtype, s.window.in_pixels(), s.channels, 3, 1),
        y(dtype, s.window.out_pixels(), s.channels, 1, 2),
        dy(dtype, s.window.out_pixels(), s.channels, 2, 3),
        dx(dtype, s.window.in_pixels(), s.channels, 0, 4) {}
  bool operator==(const Operands&) const = default;
  RandomMatrix x, y, dy, dx;
};

void run(const KernelTable& kernels, Stream& stream, PoolKind kind, const PoolShape& s, Operands& o,
         Write write = Write::Overwrite) {
  kernels.pool_forward(stream, {kind, s.window, o.x, o.y});
  kernels.pool_backward(stream, {kind, s.window, o.dy, o.x, o.dx, write});
}

TEST(Pool, AgreesWithReferenceAndHasTheSameBitsEverywhere) {
  Teams teams;
  for (PoolKind kind : {PoolKind::Max, PoolKind::Average}) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const PoolShape& shape : kPoolShapes) {
        for (Write write : {Write::Overwrite, Write::Accumulate}) {
          const auto call = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
            run(kernels, stream, kind, shape, o, write);
          };
          const Operands start(dtype, shape);
          Operands got = same_bits_everywhere(teams, start, call);
          Operands want = by_reference(teams, start, call);
          expect_near(got.y, want.y, 2e-6, "y");
          expect_near(got.dx, want.dx, 2e-6, "dx");
        }
      }
    }
  }
}

// If x has no equal pixels, both kinds of pools are linear near x, so <y, dy> = <x, dx>.
TEST(Pool, BackwardIsTheAdjoint) {
  Teams teams;
  for (PoolKind kind : {PoolKind::Max, PoolKind::Average}) {
    for (const PoolShape& shape : kPoolShapes) {
      Operands o(DType::F32, shape);
      run(cpu_kernels(Isa::Avx2), teams.of_2, kind, shape, o);
      EXPECT_NEAR(inner_product(o.y, o.dy), inner_product(o.x, o.dx), 1e-4);
    }
  }
}

TEST(Pool, OfEqualPixelsTheFirstOneHasTheGradientAndANanStays) {
  Teams teams;
  const PoolShape shape{{1, 2, 2, 2, 1, 0}, 17};
  for (Isa isa : supported_isas()) {
    Operands o(DType::F32, shape);
    for (int64_t p = 0; p < 4; ++p) {
      for (int64_t c = 0; c < 17; ++c) o.x.set(p, c, p == 0 ? 1.0f : 2.0f);
    }
    o.x.set(2, 5, NAN);
    run(cpu_kernels(isa), teams.of_1, PoolKind::Max, shape, o);
    for (int64_t c = 0; c < 17; ++c) {
      EXPECT_EQ(std::isnan(o.y.get(0, c)), c == 5);
      for (int64_t p = 0; p < 4; ++p) {
        EXPECT_EQ(o.dx.get(p, c), p == (c == 5 ? 2 : 1) ? o.dy.get(0, c) : 0.0f);
      }
    }
  }
}

TEST(Pool, AWindowWithoutAPixelIsRefused) {
  Teams teams;
  Operands o(DType::F32, {{1, 4, 4, 2, 2, 0}, 3});
  EXPECT_THROW(cpu_kernels(Isa::Avx2).pool_forward(teams.of_1,
                                                   {PoolKind::Max, {1, 4, 4, 2, 2, 2}, o.x, o.y}),
               ContractError);
}

}  // namespace
}  // namespace trireme
