#include "kernels/dropout/dropout.h"

#include "kernels/dropout/dropout_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const DropoutShape& shape)
      : rows_per_sample(shape.rows_per_sample),
        x(dtype, shape.rows, shape.cols, 3, 1),
        residual(dtype, shape.rows, shape.cols, 1, 2),
        y(dtype, shape.rows, shape.cols, 2, 3) {}
  bool operator==(const Operands&) const = default;

  DropoutArgs args(float probability, bool has_residual = true) {
    return {.x_TC = x,
            .residual_TC = has_residual ? residual.ref() : MatrixRef{},
            .y_TC = y,
            .probability = probability,
            .key = {0x0123456789abcdefu},
            // Sample numbers cross 32 bits, the word of a counter.
            .first_sample = (uint64_t{1} << 32) - 1,
            .rows_per_sample = rows_per_sample};
  }

  int64_t rows_per_sample;
  RandomMatrix x, residual, y;
};

TEST(Dropout, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const DropoutShape& shape : kDropoutShapes) {
      for (float probability : {0.0f, 0.1f, 0.75f}) {
        for (bool has_residual : {false, true}) {
          SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
          const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
            kernels.dropout(stream, o.args(probability, has_residual));
          };
          const Operands start(dtype, shape);
          const Operands got = same_bits_everywhere(teams, start, run);
          expect_near(got.y, by_reference(teams, start, run).y, 1e-6, "y");
        }
      }
    }
  }
}

TEST(Dropout, ASamplesMaskDoesNotDependOnWhereItsRowsLie) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    Operands whole(DType::F32, {60, 515, 20}), parts = whole;
    cpu_kernels(isa).dropout(teams.of_2, whole.args(0.3f));
    for (int64_t sample = 0; sample < 3; ++sample) {
      DropoutArgs args = parts.args(0.3f);
      args.x_TC = rows_of(args.x_TC, sample * 20, 20);
      args.residual_TC = rows_of(args.residual_TC, sample * 20, 20);
      args.y_TC = rows_of(args.y_TC, sample * 20, 20);
      args.first_sample += sample;
      cpu_kernels(isa).dropout(teams.of_1, args);
    }
    EXPECT_TRUE(whole == parts);
  }
}

TEST(Dropout, MayOverwriteWhatItReads) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    Operands apart(DType::BF16, {9, 61, 4}), onto_x = apart, onto_residual = apart;
    cpu_kernels(isa).dropout(teams.of_2, apart.args(0.5f));
    DropoutArgs args = onto_x.args(0.5f);
    args.y_TC = args.x_TC;
    cpu_kernels(isa).dropout(teams.of_2, args);
    expect_near(onto_x.x, apart.y, 0.0, "y in x");
    args = onto_residual.args(0.5f);
    args.y_TC = args.residual_TC;
    cpu_kernels(isa).dropout(teams.of_2, args);
    expect_near(onto_residual.residual, apart.y, 0.0, "y in residual");
  }
}

TEST(Dropout, KeepsItsShareAndTheMean) {
  Teams teams;
  Operands o(DType::F32, {400, 1000, 400});
  for (int64_t row = 0; row < 400; ++row) {
    for (int64_t col = 0; col < 1000; ++col) o.x.set(row, col, 1.0f);
  }
  cpu_kernels(supported_isas().back()).dropout(teams.of_1, o.args(0.3f, false));
  int64_t kept = 0;
  for (int64_t row = 0; row < 400; ++row) {
    for (int64_t col = 0; col < 1000; ++col) kept += o.y.get(row, col) != 0.0f;
  }
  EXPECT_NEAR(double(kept) / 400'000, 0.7, 0.004);  // within 5 standard deviations
}

// The mask is linear, so the same call on dy is the backward pass: <mask(x), dy> = <x, mask(dy)>.
TEST(Dropout, IsItsOwnBackward) {
  Teams teams;
  Operands o(DType::F32, {6, 7, 3}), back = o;
  back.x = o.residual;
  dropout_ref(teams.of_1, o.args(0.4f, false));
  dropout_ref(teams.of_1, back.args(0.4f, false));
  EXPECT_NEAR(inner_product(o.y, o.residual), inner_product(o.x, back.y), 1e-5);
}

TEST(Dropout, PartsOfTheColumnsDropWhatTheWholeDrops) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (const DropoutShape& shape : kDropoutShapes) {
      Operands whole(DType::F32, shape), parts = whole;
      cpu_kernels(isa).dropout(teams.of_2, whole.args(0.3f));
      for (int64_t begin = 0; begin < shape.cols; begin += 45) {
        DropoutArgs args = parts.args(0.3f);
        const int64_t count = std::min<int64_t>(45, shape.cols - begin);
        for (MatrixRef* x : {&args.x_TC, &args.residual_TC, &args.y_TC}) {
          *x = cols_of(*x, begin, count);
        }
        args.first_column = begin;
        args.all_columns = shape.cols;
        cpu_kernels(isa).dropout(teams.of_1, args);
      }
      EXPECT_TRUE(whole == parts) << shape.cols;
    }
  }
}

TEST(Dropout, PartsOfTheRowsDropWhatTheWholeDrops) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (const DropoutShape& shape : kDropoutShapes) {
      Operands whole(DType::F32, shape), parts = whole;
      cpu_kernels(isa).dropout(teams.of_2, whole.args(0.3f));
      for (int64_t begin = 0; begin < shape.rows; begin += 2) {
        DropoutArgs args = parts.args(0.3f);
        const int64_t count = std::min<int64_t>(2, shape.rows - begin);
        for (MatrixRef* x : {&args.x_TC, &args.residual_TC, &args.y_TC}) {
          *x = rows_of(*x, begin, count);
        }
        args.first_row = begin;
        cpu_kernels(isa).dropout(teams.of_1, args);
      }
      EXPECT_TRUE(whole == parts) << shape.rows;
    }
  }
}

}  // namespace
}  // namespace trireme
