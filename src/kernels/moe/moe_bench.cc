#include <fmt/format.h>

#include "kernels/bench_tensors.h"
#include "kernels/moe/moe_cases.h"

namespace trireme {
namespace {

// Groups of unequal size, as a router makes them: 2/3 to 4/3 of the mean.
std::vector<int32_t> uneven_groups(int64_t rows, int64_t groups) {
  std::vector<int32_t> begin = {0};
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t mean = rows / groups, change = mean / 3 * (g % 3 - 1);
    begin.push_back(g + 1 == groups ? int32_t(rows) : begin.back() + int32_t(mean + change));
  }
  return begin;
}

// The products of experts, compared with one product that has the same FLOPs and matrix extents.
void bench_products(std::vector<BenchRow>& rows, const BenchContext& context, DType dtype) {
  const MoeShape& shape = kMoeBenchShape;
  const int64_t A = shape.rows(), C = shape.d_model, F = shape.d_ff, E = shape.experts;
  const std::vector<int32_t> begin = uneven_groups(A, E);
  Tensor x = varied(dtype, {A, C}), y = varied(dtype, {A, F});
  const char* names[] = {"NT", "NN", "TN"};
  for (MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
    const std::string name =
        fmt::format("grouped {} {} experts {}x{}x{}", names[int(form)], E, A,
                    form == MatmulForm::NT ? F : C, form == MatmulForm::NT ? C : F);
    if (!context.wants("moe", name, dtype)) continue;
    std::vector<Tensor> weights;
    std::vector<MatrixRef> w_E;
    for (int64_t e = 0; e < E; ++e) {
      weights.push_back(varied(form == MatmulForm::TN ? DType::F32 : dtype, {F, C}));
      w_E.push_back(matrix(weights.back()));
    }
    const bool is_nt = form == MatmulForm::NT;
    GroupedMatmulArgs args{form,
                           is_nt ? matrix(x) : matrix(y),
                           is_nt ? matrix(y) : matrix(x),
                           w_E,
                           {const_cast<int32_t*>(begin.data()), DType::I32, Shape{E + 1}}};
    args.write = Write::Overwrite;
    MatmulArgs dense{.form = form, .a = args.x, .b = w_E[0], .c = args.y};
    if (form == MatmulForm::TN) dense = {.form = form, .a = args.x, .b = args.y, .c = w_E[0]};
    BenchRow row;
    row.family = "moe";
    row.shape = name;
    row.dtype = dtype;
    row.seconds = median_seconds([&] { context.kernels.grouped_matmul(context.stream, args); });
    row.flops = 2.0 * double(A) * double(C) * double(F);
    row.formula = "2 rows d_model d_ff";
    row.baseline = "one dense product";
    row.baseline_seconds = median_seconds([&] { context.kernels.matmul(context.stream, dense); });
    rows.push_back(row);
  }
}

}  // namespace

void bench_moe(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) bench_products(rows, context, dtype);
}

}  // namespace trireme
