#include "runtime/tied_sum.h"

#include <numeric>
#include <utility>

namespace trireme {
namespace {

TensorRef elements_of(const TensorRef& grad, int64_t first, int64_t count) {
  return {static_cast<char*>(grad.data) + first * size_of(grad.dtype), grad.dtype, Shape{count}};
}

}  // namespace

TiedSum::TiedSum(std::vector<Run> runs, Copies copies, Algorithm algorithm)
    : runs_(std::move(runs)), copies_(std::move(copies)), algorithm_(algorithm) {
  works_.reserve(runs_.size());
}

CollectiveArgs TiedSum::sum(const Run& run, const TensorRef& grad) const {
  const TensorRef elements = elements_of(grad, run.first, run.count);
  return {.collective = Collective::AllReduce,
          .in = elements,
          .out = elements,
          .op = ReduceOp::Sum,
          .algorithm = algorithm_};
}

CollectiveArgs TiedSum::gather(const TensorRef& grad) const {
  const auto own = copies_.counts.begin() + copies_.group->rank();
  const int64_t first = std::accumulate(copies_.counts.begin(), own, int64_t{0});
  return {.collective = Collective::AllGather,
          .in = elements_of(grad, first, *own),
          .out = grad,
          .algorithm = algorithm_,
          .counts = copies_.counts};
}

void TiedSum::reserve(const TensorRef& grad) {
  for (Run& run : runs_) run.pair->reserve(sum(run, grad));
  copies_.group->reserve(gather(grad));
}

void TiedSum::run(const TensorRef& grad) {
  for (Run& run : runs_) works_.push_back(run.pair->start(sum(run, grad)));
  for (Work& work : works_) work.wait();
  works_.clear();
  copies_.group->run(gather(grad));
}

Traffic TiedSum::traffic() const {
  Traffic traffic;
  for (const Run& run : runs_) traffic += run.pair->traffic();
  return traffic;
}

Traffic TiedSum::gather_traffic() const {
  return copies_.group != nullptr ? copies_.group->traffic() : Traffic{};
}

int64_t TiedSum::scratch_bytes() const {
  int64_t bytes = copies_.group != nullptr ? copies_.group->scratch_bytes() : 0;
  for (const Run& run : runs_) bytes += run.pair->scratch_bytes();
  return bytes;
}

}  // namespace trireme
