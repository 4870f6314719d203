#include "predict/action_traffic.h"

#include <vector>

#include "memory/offload_pieces.h"
#include "predict/rank_groups.h"
#include "schema/message_cut.h"

namespace trireme {

int64_t file_bytes(const RankPlan& rank, const Action& action) {
  switch (action.kind) {
    case ActionKind::FetchUnits:
    case ActionKind::OffloadUnits:
      return block_bytes(unit_blocks(rank.chunks[size_t(action.chunk)], action.first_unit));
    case ActionKind::FetchPiece:
    case ActionKind::OffloadPiece:
      return block_bytes(
          rank.chunks[size_t(action.chunk)].pieces[size_t(action.microbatch)].blocks);
    default:
      return 0;
  }
}

ActionTraffic::ActionTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes)
    : plan_(plan),
      collective_bytes_(collective_bytes),
      units_(plan, collective_bytes),
      gradients_(plan, collective_bytes) {}

AxisCounts ActionTraffic::sent(const RankPlan& rank, const Action& action) {
  AxisCounts bytes = {};
  switch (action.kind) {
    case ActionKind::F:
    case ActionKind::B:
    case ActionKind::W:
    case ActionKind::BW:
      return units_.sent(rank, action);
    case ActionKind::SendActivation:
    case ActionKind::RecvGrad:
      return sent_in_message(rank, action, kStageOutput);
    case ActionKind::RecvActivation:
    case ActionKind::SendGrad:
      return sent_in_message(rank, action,
                             stage_input_name(rank.chunks[size_t(action.chunk)].stage));
    case ActionKind::JoinTiedTable:
      return gradients_.sent_in_tied_join(rank, action);
    case ActionKind::Step:
      return gradients_.sent_in_step(rank);
    case ActionKind::JoinDirections:
      bytes[kPp] = gradients_.sent_in_join(rank, action);
      return bytes;
    case ActionKind::ReduceGrad:
      bytes[kDp] = gradients_.sent_in_reduce(rank, action);
      return bytes;
    case ActionKind::Unshard:
      bytes[kDp] = gradients_.sent_in_unshard(rank, action);
      return bytes;
    default:
      bytes[kFile] = file_bytes(rank, action);
      return bytes;
  }
}

// Counts a message between stages. A sender sends a part of it to the other stage. A receiver sends
// its part on to the tp ranks that have received the others.
AxisCounts ActionTraffic::sent_in_message(const RankPlan& rank, const Action& action,
                                          const std::string& name) const {
  const TensorSpec& carried = rank.chunks[size_t(action.chunk)].tables.saved.at(name);
  const int64_t rows = carried.shape[0];
  const int64_t row_bytes = rows == 0 ? 0 : carried.bytes() / rows;
  const MessageCut cut = message_cut(rank.shape, action.peer);
  AxisCounts bytes = {};
  const bool sends =
      action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
  if (sends) {
    bytes[kPp] = cut.own_part(cut.all_rows(rows)).count * row_bytes;
    return bytes;
  }
  const int ranks = cut.num_gathering();
  const int64_t cols = row_bytes / size_of(carried.dtype);
  std::vector<int64_t> counts;
  for (int index = 0; index < ranks; ++index) {
    counts.push_back(cut.gathered(rows, index).count * cols);
  }
  const RankGroups groups(plan_.mesh, rank, collective_bytes_);
  bytes[kTp] = groups.sent({.collective = Collective::AllGather,
                            .group = groups.along(MeshAxis::Tp, ranks),
                            .rank = cut.index_in_gather(),
                            .count = rows * cols,
                            .counts = counts,
                            .dtype = carried.dtype});
  return bytes;
}

int64_t ActionTraffic::sent_in_exchange(int position, const RankPlan& any_rank) {
  const auto sent = [&](int64_t count, DType dtype) {
    return sent_by_rank({.group = {0, {plan_.num_ranks(), 1}, {}},
                         .rank = position,
                         .count = count,
                         .dtype = dtype},
                        collective_bytes_);
  };
  const int64_t words = sent(exchange_words(any_rank), DType::I64);
  const int64_t num_logits = any_rank.logits.count();
  return num_logits == 0 ? words : words + sent(num_logits, DType::F32);
}

}  // namespace trireme
