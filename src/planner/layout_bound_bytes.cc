// Lower bounds of memory. Those of time are in layout_bound.cc.

#include <algorithm>
#include <utility>

#include "compile/stage_cost.h"
#include "planner/layout_bound.h"
#include "planner/schedule_outline.h"
#include "program/make_schedule.h"

namespace trireme {

NeededBytes LayoutBounds::even_bytes(const LayoutChoice& layout) {
  const int copies = traits_of(layout.schedule).param_copies();
  const double layers = double(started_.model.layers) * copies;
  const ActivationBytes& activations = layers_.activations(layout);
  const double bytes =
      layers_.zero_parts(layout, LayerBounds::Orders::Taken).stored_bytes + activations.layer_saved;
  const bool is_whole = layout.mesh.pp == 1;
  const EndBytes& stored = layers_.ends(layout.mesh);
  const double ends = layers_.sharded_bytes(layout, stored.of(true, is_whole)) +
                      layers_.sharded_bytes(layout, stored.of(false, !is_whole));
  // The last stage may have no layers.
  const double scratch = activations.layer_scratch * (is_whole ? 1 : layout.mesh.pp - 1);
  const double of_pipeline = layers * bytes + copies * ends + scratch;
  const double of_rank = of_pipeline / layout.mesh.pp * kRounding;
  return {int64_t(of_rank), int64_t(of_rank * layout.mesh.size())};
}

std::vector<LayoutBounds::RankBytes> LayoutBounds::pipeline_bytes(
    const LayoutChoice& layout, const Stages& stages, std::span<const double> saved_bytes) {
  const Schedule schedule = schedule_outline(layout);
  const ActivationBytes& activations = layers_.activations(layout);
  std::vector<RankBytes> ranks;
  for (int rank = 0; rank < layout.mesh.pp; ++rank) {
    RankBytes own{.layers = layers_of(schedule, rank, stages)};
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      const StageSpec& stage = stages[size_t(stage_of(schedule, rank, chunk))];
      own.has_embedding = own.has_embedding || stage.has_embedding;
      own.has_head = own.has_head || stage.has_head;
      const double scratch = (stage.num_layers > 0 ? activations.layer_scratch : 0.0) +
                             (stage.has_head ? activations.head_scratch : 0.0);
      own.scratch_bytes = std::max(own.scratch_bytes, scratch);
    }
    // A rank with other chunks may save the most while no micro-batch is at the head.
    const double of_layers = saved_bytes[size_t(rank)];
    const double of_head = own.has_head ? activations.head_saved : 0.0;
    const double saved =
        schedule.num_chunks == 1 ? of_layers + of_head : std::max(of_layers, of_head);
    add_rank(own, saved, ranks);
  }
  return ranks;
}

void LayoutBounds::add_rank(const RankBytes& own, double saved, std::vector<RankBytes>& ranks) {
  auto alike = std::find_if(ranks.begin(), ranks.end(), [&](const RankBytes& other) {
    return own.layers == other.layers && own.has_embedding == other.has_embedding &&
           own.has_head == other.has_head && own.scratch_bytes == other.scratch_bytes;
  });
  if (alike == ranks.end()) alike = ranks.insert(ranks.end(), own);
  ++alike->num_ranks;
  alike->most_saved = std::max(alike->most_saved, saved);
  alike->all_saved += saved;
}

NeededBytes LayoutBounds::needed(const LayoutChoice& layout, const std::vector<RankBytes>& ranks) {
  const double layer = layers_.zero_parts(layout, LayerBounds::Orders::Taken).stored_bytes;
  const EndBytes& ends = layers_.ends(layout.mesh);
  double most = 0.0, of_pipeline = 0.0;
  for (const RankBytes& rank : ranks) {
    const StoredBytes of_ends = ends.of(rank.has_embedding, rank.has_head);
    const double bytes =
        rank.layers * layer + layers_.sharded_bytes(layout, of_ends) + rank.scratch_bytes;
    most = std::max(most, bytes + rank.most_saved);
    of_pipeline += rank.num_ranks * bytes + rank.all_saved;
  }
  const double pipelines = double(layout.mesh.size()) / layout.mesh.pp;
  return {int64_t(most * kRounding), int64_t(of_pipeline * pipelines * kRounding)};
}

Result<NeededBytes> LayoutBounds::bytes(const LayoutChoice& layout,
                                        std::span<const double> saved_bytes) {
  TRIREME_TRY(found, stages(layout, num_stages(schedule_outline(layout))));
  return needed(layout, pipeline_bytes(layout, *found, saved_bytes));
}

// Saved bytes of every rank, when as few micro-batches live as the schedule allows. They are the
// same for every ZeRO level, order and choice of memory.offload.
std::vector<double> LayoutBounds::least_saved_bytes(const LayoutChoice& layout,
                                                    const Stages& stages) {
  const Schedule schedule = schedule_outline(layout);
  const int64_t m = started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const ScheduleShape shape{layout.mesh.pp, int(m), schedule.num_chunks};
  const double saved = layers_.activations(layout).layer_saved;
  std::vector<double> saved_bytes;
  for (int rank = 0; rank < layout.mesh.pp; ++rank) {
    const double live = double(least_live(name_of(layout.schedule), shape, rank));
    const double held = double(least_held(name_of(layout.schedule), shape, rank));
    const double layers = std::max(layers_of(schedule, rank, stages) * live,
                                   least_layers_of_chunk(schedule, rank, stages) * held);
    saved_bytes.push_back(layers * saved);
  }
  return saved_bytes;
}

Result<const std::vector<LayoutBounds::RankBytes>*> LayoutBounds::least_bytes(
    const LayoutChoice& layout) {
  ScheduleKey key = schedule_key(layout, 0);
  if (bytes_key_ == key) return &least_bytes_;
  TRIREME_TRY(found, stages(layout, num_stages(schedule_outline(layout))));
  least_bytes_ = pipeline_bytes(layout, *found, least_saved_bytes(layout, *found));
  bytes_key_ = std::move(key);
  return &least_bytes_;
}

Result<NeededBytes> LayoutBounds::bytes(const LayoutChoice& layout) {
  TRIREME_TRY(least, least_bytes(layout));
  return needed(layout, *least);
}

RecomputeChoice& LayoutBounds::recompute_choice() {
  if (!recompute_choice_) {
    recompute_choice_.emplace(started_, started_.hardware.value_or(nominal_hardware()));
  }
  return *recompute_choice_;
}

// The sets are ordered by what they cost on one device. On another one the next set may cost less.
bool LayoutBounds::knows_again(const LayoutChoice& layout) const {
  return layout.recompute == Recompute::Fit && !hardware_.is_mixed();
}

uint64_t LayoutBounds::cheapest_again(const LayoutChoice& layout, const NeededBytes& limit) {
  if (!knows_again(layout)) return 0;
  const Result<const Stages*> found = stages(layout, num_stages(schedule_outline(layout)));
  return found.ok() ? cheapest_again(layout, limit, least_saved_bytes(layout, *found.value())) : 0;
}

uint64_t LayoutBounds::cheapest_again(const LayoutChoice& layout, const NeededBytes& limit,
                                      std::span<const double> saved_bytes) {
  if (!knows_again(layout)) return 0;
  const Mesh& mesh = layout.mesh;
  const auto [known, is_new] = saved_sets_.try_emplace(layers_.key(layout));
  const std::vector<RecomputeChoice::SavedSet>& sets = known->second;
  if (is_new) {
    RunPlan plan = layers_.shaped(layout);
    plan.shape.tp_rank = mesh.tp - 1;
    known->second = recompute_choice().cheapest_by_saved_bytes(plan, plan.shape);
  }
  const double least = layers_.activations(layout).layer_saved;
  std::vector<double> more(saved_bytes.size());
  for (const RecomputeChoice::SavedSet& set : sets) {
    const double saved = least + double(set.saved_by_layer - sets.back().saved_by_layer);
    for (size_t rank = 0; rank < more.size(); ++rank) {
      more[rank] = saved_bytes[rank] * (saved / least);
    }
    const Result<NeededBytes> needed = bytes(layout, more);
    if (!needed.ok()) break;
    const bool may_fit = (limit.of_rank == 0 || needed->of_rank <= limit.of_rank) &&
                         (limit.of_all == 0 || needed->of_all <= limit.of_all);
    if (may_fit) return set.again;
  }
  return sets.back().again;
}

}  // namespace trireme
