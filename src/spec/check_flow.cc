#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "spec/stage_flow.h"

namespace trireme {
namespace {

using Kind = FlowStep::Kind;

// What a parameter's gradient is over the tp ranks after the last W.
enum class GradOf { Parts, Whole, Addend };

class FlowCheck {
 public:
  FlowCheck(const StageFlow& flow, const std::vector<ParamLayout>& layouts) : flow_(flow) {
    for (const ParamLayout& layout : layouts) layouts_[layout.name] = &layout;
    for (const StageFlow::Tensor& input : flow.inputs) placements_[input.name] = input.placement;
  }

  Status run() {
    for (const FlowStep& step : flow_.steps) TRIREME_TRY_DONE(check(step));
    FlowStep end;
    end.block = "the stage's end";
    for (const StageFlow::Tensor& output : flow_.outputs) {
      TRIREME_TRY_DONE(expect(end, output.name, output.placement));
    }
    for (const auto& [name, is] : placements_) {
      if (reads_.contains(name)) continue;
      return Error{ErrorKind::Usage,
                   fmt::format("{}, {} over tp, is read by no step", name, to_string(is))};
    }
    for (const auto& [name, layout] : layouts_) {
      if (used_.contains(name)) continue;
      return Error{ErrorKind::Usage, fmt::format("parameter {} is read by no step", name)};
    }
    return Done{};
  }

 private:
  Error wrong(const FlowStep& step, const std::string& tensor, Placement is,
              const std::string& should) const {
    return {ErrorKind::Usage,
            fmt::format("{}: {} is {} over tp, and should be {}: a redistribution before it is "
                        "missing, doubled or another",
                        step.block, tensor, to_string(is), should)};
  }

  // The tensor lies as wanted; addends are read, and so summed, once.
  Status expect(const FlowStep& step, const std::string& tensor, Placement wanted) {
    const auto found = placements_.find(tensor);
    if (found == placements_.end()) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: {} is read and was not written", step.block, tensor)};
    }
    if (!(found->second == wanted)) return wrong(step, tensor, found->second, to_string(wanted));
    if (++reads_[tensor] > 1 && wanted == Placement::partial()) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: {} is summed over tp twice", step.block, tensor)};
    }
    return Done{};
  }

  // The parameter lies as the step needs it, and its gradient is said to be what it will be.
  Status expect_param(const FlowStep& step, const std::string& param, Placement wanted,
                      GradOf grad) {
    const auto found = layouts_.find(param);
    if (found == layouts_.end()) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: parameter {} has no placement over tp", step.block, param)};
    }
    const ParamLayout& layout = *found->second;
    used_[param] = true;
    if (!(layout.placement == wanted)) {
      return wrong(step, param, layout.placement, to_string(wanted));
    }
    // Copies of a part see what their own ranks see; copies of the whole all see the same, unless
    // the tokens are parts.
    const bool shares_part = wanted.kind == Placement::Kind::Shard && layout.copies > 1;
    const int addends = grad == GradOf::Addend || shares_part ? layout.copies : 1;
    if (layout.grad_addends == addends) return Done{};
    return Error{ErrorKind::Usage,
                 fmt::format("{}: the gradient of {} is one of {} addends over tp, and is summed "
                             "over {} ranks before Step",
                             step.block, param, addends, layout.grad_addends)};
  }

  Status expect_params(const FlowStep& step, size_t begin, size_t end, Placement wanted,
                       GradOf grad) {
    for (size_t i = begin; i < std::min(end, step.params.size()); ++i) {
      TRIREME_TRY_DONE(expect_param(step, step.params[i], wanted, grad));
    }
    return Done{};
  }

  Status leave(const FlowStep& step, Placement out) {
    if (placements_.contains(step.out)) {
      return Error{ErrorKind::Usage, fmt::format("{}: {} is written twice", step.block, step.out)};
    }
    placements_[step.out] = out;
    return Done{};
  }

  Status check(const FlowStep& step);

  const StageFlow& flow_;
  std::map<std::string, const ParamLayout*> layouts_;
  std::map<std::string, bool> used_;
  std::map<std::string, Placement> placements_;
  std::map<std::string, int> reads_;
};

Status FlowCheck::check(const FlowStep& step) {
  const Placement shards = Placement::shard(1);  // of [tokens, columns]
  const bool token_parts = flow_.residual == Placement::shard(0);
  const size_t all = step.params.size();
  switch (step.kind) {
    case Kind::Lookup:
      TRIREME_TRY_DONE(expect(step, step.in, Placement::invariant()));
      TRIREME_TRY_DONE(expect_params(step, 0, 1, Placement::shard(0), GradOf::Parts));
      // The gathered gradient has all tokens on all ranks.
      TRIREME_TRY_DONE(expect_params(step, 1, all, Placement::invariant(), GradOf::Whole));
      return leave(step, Placement::partial());
    case Kind::Norm:
      TRIREME_TRY_DONE(expect(step, step.in, flow_.residual));
      TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::invariant(),
                                     token_parts ? GradOf::Addend : GradOf::Whole));
      return leave(step, flow_.residual);
    case Kind::Route:
      // What goes back to it comes from each rank's own columns.
      TRIREME_TRY_DONE(expect(step, step.in, Placement::replicate()));
      TRIREME_TRY_DONE(expect_params(step, 0, 1, Placement::invariant(), GradOf::Addend));
      TRIREME_TRY_DONE(expect_params(step, 1, all, Placement::invariant(), GradOf::Whole));
      return leave(step, Placement::replicate());
    case Kind::Column:
      TRIREME_TRY_DONE(expect(step, step.in, Placement::replicate()));
      TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::shard(0), GradOf::Parts));
      return leave(step, shards);
    case Kind::Shards:
      TRIREME_TRY_DONE(expect(step, step.in, shards));
      if (!step.onto.empty()) {
        TRIREME_TRY_DONE(expect(step, step.onto, Placement::replicate()));
      }
      return leave(step, shards);
    case Kind::Row:
      TRIREME_TRY_DONE(expect(step, step.in, shards));
      TRIREME_TRY_DONE(expect_params(step, 0, 1, shards, GradOf::Parts));
      TRIREME_TRY_DONE(expect_params(step, 1, all, Placement::invariant(), GradOf::Whole));
      return leave(step, Placement::partial());
    case Kind::Rows:
      TRIREME_TRY_DONE(expect(step, step.in, shards));
      TRIREME_TRY_DONE(expect_params(step, 0, step.params.size(), shards, GradOf::Parts));
      return leave(step, Placement::partial());
    case Kind::Enter:
    case Kind::Leave:
    case Kind::Join:
      TRIREME_TRY_DONE(expect(step, step.in, step.move.change.from));
      return leave(step, step.move.change.to);
    case Kind::Add:
      TRIREME_TRY_DONE(expect(step, step.in, flow_.residual));
      TRIREME_TRY_DONE(expect(step, step.onto, flow_.residual));
      return leave(step, flow_.residual);
    case Kind::Loss:
      TRIREME_TRY_DONE(expect(step, step.in, Placement::replicate()));
      TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::shard(0), GradOf::Parts));
      return leave(step, Placement::shard(0));
  }
  return Done{};
}

// The first copies of all ranks hold every element once.
Status check_cover(const std::vector<std::vector<ParamLayout>>& of_rank) {
  for (size_t i = 0; i < of_rank[0].size(); ++i) {
    const ParamLayout& first = of_rank[0][i];
    const bool is_split = first.placement.kind == Placement::Kind::Shard;
    int64_t next = 0;  // along the dim that is split
    for (const std::vector<ParamLayout>& layouts : of_rank) {
      const ParamLayout& layout = layouts[i];
      if (!layout.is_first_copy) continue;
      if (is_split && layout.begin[first.placement.dim] != next) break;
      next += is_split ? layout.extent[first.placement.dim] : 1;
    }
    if (next != (is_split ? first.global[first.placement.dim] : 1)) {
      return Error{ErrorKind::Usage,
                   fmt::format("parameter {}: the tp ranks' parts do not make up {}", first.name,
                               first.global.to_string())};
    }
  }
  return Done{};
}

}  // namespace

Status check_flow(const StageFlow& flow, const std::vector<ParamLayout>& layouts) {
  return FlowCheck(flow, layouts).run();
}

Status check_placements(const ModelSpec& model, const StageSpec& stage, StageShape shape) {
  TRIREME_TRY_DONE(check_tensor_parallel(model, shape.tp));
  std::vector<std::vector<ParamLayout>> of_rank;
  for (shape.tp_rank = 0; shape.tp_rank < shape.tp; ++shape.tp_rank) {
    of_rank.push_back(param_layouts(model, stage, shape));
    TRIREME_TRY_DONE(check_flow(stage_flow(model, stage, shape), of_rank.back()));
  }
  return check_cover(of_rank);
}

}  // namespace trireme
