#include "kernels/bench_tensors.h"
#include "kernels/embedding/embedding_cases.h"

namespace trireme {

void bench_embedding(std::vector<BenchRow>& rows, const BenchContext& context) {
  const auto [T, V, C, S] = kEmbeddingBenchShape;
  Tensor tokens(DType::I32, {T});
  for (int64_t t = 0; t < T; ++t) {  // as in text: a third of the tokens are frequent ones
    tokens.ref().as<int32_t>()[t] = int32_t(t % 3 == 0 ? t * 31 % 40 : t * 7919 % V);
  }
  for (DType dtype : {DType::BF16, DType::F32}) {
    Tensor table = varied(dtype, {V, C}), positions = varied(dtype, {S, C}), y(dtype, {T, C});
    Tensor dtable(DType::F32, {V, C}), dpositions(DType::F32, {S, C});
    const double bytes = double(T * C * size_of(dtype)), sums = double(T * C * size_of(DType::F32));
    const double table_bytes = double((V + S) * C * size_of(DType::F32));
    const auto measure = [&](const char* name, MovedBytes moved, auto&& call) {
      add_bandwidth_row(rows, context, "embedding", name + extents(T, C), dtype, moved, call);
    };
    measure("forward ", {2 * bytes, "read rows, write x"}, [&] {
      context.kernels.embedding_forward(context.stream,
                                        {tokens, matrix(table), matrix(positions), S, matrix(y)});
    });
    for (Write write : {Write::Overwrite, Write::Accumulate}) {
      const bool overwrite = write == Write::Overwrite;
      measure(overwrite ? "backward = " : "backward += ",
              {bytes + 2 * sums + (overwrite ? table_bytes : 0.0),
               overwrite ? "zero tables, read dx, read and write rows"
                         : "read dx, read and write rows"},
              [&] {
                context.kernels.embedding_backward(
                    context.stream,
                    {tokens, matrix(y), matrix(dtable), matrix(dpositions), S, write});
              });
    }
  }
}

}  // namespace trireme
