#include "comm/mpi/mpi_native.h"

#include <mpi.h>

#include "base/check.h"

namespace trireme {
namespace {

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return MPI_FLOAT;
    case DType::I32:
      return MPI_INT32_T;
    case DType::I64:
      return MPI_INT64_T;
    default:
      return MPI_DATATYPE_NULL;  // MPI has no bf16
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Max:
      return MPI_MAX;
    case ReduceOp::Min:
      return MPI_MIN;
    default:
      return MPI_SUM;
  }
}

struct Native {
  const SharedBoard::Call& call;
  int size;
  int rank;
  MPI_Datatype type;
  std::vector<int> counts;  // counts of balanced parts
  std::vector<int> begins;

  Native(const SharedBoard::Call& c, int ranks, int own)
      : call(c), size(ranks), rank(own), type(mpi_type(c.dtype)) {
    for (int r = 0; r < size; ++r) {
      counts.push_back(int(balanced_count(call.count, size, r)));
      begins.push_back(int(balanced_begin(call.count, size, r)));
    }
  }

  bool run() const {
    const int count = int(call.count);
    const int own = counts[size_t(rank)];
    const bool is_root = rank == call.root;
    switch (call.collective) {
      case Collective::AllReduce:
        MPI_Allreduce(MPI_IN_PLACE, call.out, count, type, mpi_op(call.op), MPI_COMM_WORLD);
        return true;
      case Collective::Reduce:
        MPI_Reduce(is_root ? MPI_IN_PLACE : call.in, call.out, count, type, mpi_op(call.op),
                   call.root, MPI_COMM_WORLD);
        return true;
      case Collective::Broadcast:
        MPI_Bcast(call.out, count, type, call.root, MPI_COMM_WORLD);
        return true;
      case Collective::Scatter:
        MPI_Scatterv(call.in, counts.data(), begins.data(), type, call.out, own, type, call.root,
                     MPI_COMM_WORLD);
        return true;
      case Collective::Gather:
        MPI_Gatherv(call.in, own, type, call.out, counts.data(), begins.data(), type, call.root,
                    MPI_COMM_WORLD);
        return true;
      case Collective::AllGather:
        MPI_Allgatherv(call.in, own, type, call.out, counts.data(), begins.data(), type,
                       MPI_COMM_WORLD);
        return true;
      case Collective::ReduceScatter:
        MPI_Reduce_scatter(call.in, call.out, counts.data(), type, mpi_op(call.op), MPI_COMM_WORLD);
        return true;
      case Collective::AllToAll: {
        const std::vector<int> received(size_t(size), own);
        std::vector<int> places;
        for (int r = 0; r < size; ++r) places.push_back(r * own);
        MPI_Alltoallv(call.in, counts.data(), begins.data(), type, call.out, received.data(),
                      places.data(), type, MPI_COMM_WORLD);
        return true;
      }
      case Collective::Barrier:
        MPI_Barrier(MPI_COMM_WORLD);
        return true;
      default:
        return false;
    }
  }
};

}  // namespace

std::vector<double> time_native_collective(const SharedBoard::Call& call, int size, int rank,
                                           int repeat) {
  const Native native(call, size, rank);
  const bool typed = native.type != MPI_DATATYPE_NULL || call.collective == Collective::Barrier;
  if (!typed || call.count < 0 || !call.counts.empty() || call.op == ReduceOp::Mean) return {};
  std::vector<double> seconds;
  for (int i = 0; i < repeat; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (!native.run()) return {};
    seconds.push_back(MPI_Wtime() - begin);
  }
  return seconds;
}

}  // namespace trireme
