#include "schema/message_cut.h"

#include <algorithm>
#include <numeric>

#include "schema/placement.h"

namespace trireme {
namespace {

RowRange balanced(int64_t rows, int parts, int part) {
  return {balanced_begin(rows, parts, part), balanced_count(rows, parts, part)};
}

}  // namespace

RowRange MessageCut::gathered(int64_t rows_of_rank, int of) const {
  return balanced(rows_of_rank, num_gathering(), of);
}

RowRange MessageCut::own_part(int64_t all_rows) const { return balanced(all_rows, here, index); }

RowRange MessageCut::common(int64_t rows_of_rank, int other) const {
  const int64_t all = all_rows(rows_of_rank);
  const RowRange own = own_part(all), others = balanced(all, there, other);
  const int64_t begin = std::max(own.begin, others.begin);
  const int64_t end = std::min(own.begin + own.count, others.begin + others.count);
  const int64_t first_of_rank = shares_rows ? own.begin : 0;
  return {begin - first_of_rank, std::max<int64_t>(0, end - begin)};
}

MessageCut message_cut(const StageShape& shape, int tp_there) {
  const int groups = std::gcd(shape.tp, tp_there);
  MessageCut cut{.here = shape.tp / groups, .there = tp_there / groups};
  cut.index = shape.tp_rank % cut.here;
  cut.first_there = shape.tp_rank / cut.here * cut.there;
  cut.shares_rows = shape.sequence_parallel;
  return cut;
}

}  // namespace trireme
