#include "kernels/matmul/grouped_matmul.h"

#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

// The number of rows of every group, and the extents of w.
struct GroupedShape {
  std::vector<int32_t> rows;
  int64_t in, out;
  int64_t first_row = 0;
};

std::vector<GroupedShape> grouped_shapes() {
  return {{{1}, 1, 1},          {{0, 3, 0, 5}, 7, 17},     {{64, 0, 1, 130, 47}, 33, 65, 4},
          {{9, 9, 9}, 130, 70}, {{300, 2, 0}, 64, 96, 1},  {{0, 0}, 5, 4},
          {{2, 1}, 0, 5},       {{1, 0, 1}, 300, 1030, 2}, {{16, 0, 1, 3}, 133, 170, 5},
          {{16, 1, 17}, 70, 33}};
}

struct Operands {
  Operands(MatmulForm form, DType dtype, const GroupedShape& shape, Write write,
           DType product = DType::F32)
      : form(form), write(write), begin{int32_t(shape.first_row)} {
    for (const int32_t rows : shape.rows) begin.push_back(begin.back() + rows);
    const int64_t rows = begin.back() + 2;  // the last two rows belong to no group
    const int64_t x_cols = form == MatmulForm::NT ? shape.in : shape.out;
    const int64_t y_cols = form == MatmulForm::NT ? shape.out : shape.in;
    x.emplace_back(dtype, rows, x_cols, 1, 1);
    x.emplace_back(dtype, rows, y_cols, 3, 2);
    for (size_t g = 0; g < shape.rows.size(); ++g) {
      w.emplace_back(form == MatmulForm::TN ? product : dtype, shape.out, shape.in, 2, 10 + g);
    }
  }
  bool operator==(const Operands& o) const { return x == o.x && w == o.w; }

  template <typename Call>
  void run(Call&& call) {
    std::vector<MatrixRef> w_G(w.begin(), w.end());
    call(GroupedMatmulArgs{
        form, x[0], x[1], w_G, {begin.data(), DType::I32, Shape{int64_t(begin.size())}}, write});
  }

  MatmulForm form;
  Write write;
  std::vector<int32_t> begin;
  std::vector<RandomMatrix> x, w;  // x and y; the matrix of every group
};

// Also tests that rows of no group are not written.
TEST(GroupedMatmul, EveryGroupHasTheBitsOfAProductOfItsOwn) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    for (MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
      for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
        for (Write write : {Write::Overwrite, Write::Accumulate}) {
          if (form != MatmulForm::TN && write == Write::Accumulate) continue;
          for (const GroupedShape& shape : grouped_shapes()) {
            const DType product = shape.in % 2 == 0 ? DType::F32 : DType::BF16;
            const Operands start(form, dtype, shape, write, product);
            Operands want = start;
            want.run([&](const GroupedMatmulArgs& args) {
              for (size_t g = 0; g < args.w_G.size(); ++g) {
                kernels.matmul(teams.of_1, product_of(args, g));
              }
            });
            for (OwnStream* stream : {&teams.of_1, &teams.of_2, &teams.of_4}) {
              Operands got = start;
              got.run(
                  [&](const GroupedMatmulArgs& args) { kernels.grouped_matmul(*stream, args); });
              EXPECT_TRUE(got == want) << name_of(isa) << " form " << int(form) << " "
                                       << name_of(dtype) << " " << shape.in << " x " << shape.out;
            }
          }
        }
      }
    }
  }
}

TEST(GroupedMatmul, GroupsThatFallBackAreRefused) {
  Teams teams;
  Operands o(MatmulForm::NT, DType::F32, {{4, 4}, 3, 3}, Write::Overwrite);
  o.begin[1] = 9;
  o.run([&](const GroupedMatmulArgs& args) {
    EXPECT_THROW(grouped_matmul_ref(teams.of_1, args), ContractError);
  });
}

}  // namespace
}  // namespace trireme
