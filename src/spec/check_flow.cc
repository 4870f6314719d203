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
    for (const StageFlow::Tensor& input : flow.inputs) placements_[input.name] = {input.placement};
  }

  Status run() {
    for (const FlowStep& step : flow_.steps) TRIREME_TRY_DONE(check(step));
    FlowStep end;
    end.block = "the stage's end";
    for (const StageFlow::Tensor& output : flow_.outputs) {
      TRIREME_TRY_DONE(expect(end, output.name, {output.placement}));
    }
    for (const auto& [name, is] : placements_) {
      if (reads_.contains(name)) continue;
      return Error{ErrorKind::Usage,
                   fmt::format("{}, {} over tp, is read by no step", name, to_string(is.tp))};
    }
    for (const auto& [name, layout] : layouts_) {
      if (used_.contains(name)) continue;
      return Error{ErrorKind::Usage, fmt::format("parameter {} is read by no step", name)};
    }
    return Done{};
  }

 private:
  Error wrong(const FlowStep& step, const std::string& tensor, MeshAxis axis, Placement is,
              Placement should) const {
    return {ErrorKind::Usage,
            fmt::format("{}: {} is {} over {}, and should be {}: a redistribution before it is "
                        "missing, doubled or another",
                        step.block, tensor, to_string(is), name_of(axis), to_string(should))};
  }

  // The tensor lies as wanted over every axis; addends are read, and so summed, once.
  Status expect(const FlowStep& step, const std::string& tensor, const TensorPlacement& wanted) {
    const auto found = placements_.find(tensor);
    if (found == placements_.end()) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: {} is read and was not written", step.block, tensor)};
    }
    const bool is_first = ++reads_[tensor] == 1;
    for (const MeshAxis axis : {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Ep}) {
      const Placement is = found->second.on(axis), should = wanted.on(axis);
      if (!(is == should)) return wrong(step, tensor, axis, is, should);
      if (is_first || !(should == Placement::partial())) continue;
      return Error{ErrorKind::Usage, fmt::format("{}: {} is summed over {} twice", step.block,
                                                 tensor, name_of(axis))};
    }
    return Done{};
  }
  // As it lies where it was written; moved on one axis.
  TensorPlacement as_written(const std::string& tensor) const {
    const auto found = placements_.find(tensor);
    return found == placements_.end() ? TensorPlacement{} : found->second;
  }
  static TensorPlacement moved(TensorPlacement placement, MeshAxis axis, Placement to) {
    (axis == MeshAxis::Tp ? placement.tp : axis == MeshAxis::Cp ? placement.cp : placement.ep) = to;
    return placement;
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
      return wrong(step, param, MeshAxis::Tp, layout.placement, wanted);
    }
    // Ranks of cp have tokens of their own, but experts see those of all ranks that share them.
    const int seen = is_of_expert(param) ? std::min(flow_.cp, flow_.ep) : 1;
    if (layout.cp_addends * seen != flow_.cp) {
      return Error{ErrorKind::Usage,
                   fmt::format("{}: the gradient of {} is one of {} addends over cp, and is summed "
                               "over {} ranks before Step",
                               step.block, param, flow_.cp / seen, layout.cp_addends)};
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

  Status leave(const FlowStep& step, const TensorPlacement& out) {
    if (placements_.contains(step.out)) {
      return Error{ErrorKind::Usage, fmt::format("{}: {} is written twice", step.block, step.out)};
    }
    placements_[step.out] = out;
    return Done{};
  }

  Status check(const FlowStep& step);
  Status check_linear(const FlowStep& step);
  Status check_routing(const FlowStep& step);
  Status check_attention(const FlowStep& step);

  const StageFlow& flow_;
  std::map<std::string, const ParamLayout*> layouts_;
  std::map<std::string, bool> used_;
  std::map<std::string, TensorPlacement> placements_;
  std::map<std::string, int> reads_;
};

const Placement kColumns = Placement::shard(1);  // of [tokens, columns]

// Experts see visits by expert, all others tokens.
Status FlowCheck::check_linear(const FlowStep& step) {
  const size_t all = step.params.size();
  const bool of_experts = all > 0 && is_of_expert(step.params.front());
  const Placement rows = Placement::shard(of_experts ? 1 : 0);
  const TensorPlacement whole = moved({Placement::replicate()}, MeshAxis::Ep, rows);
  const TensorPlacement columns = moved({kColumns}, MeshAxis::Ep, rows);
  if (step.kind == Kind::Column) {
    TRIREME_TRY_DONE(expect(step, step.in, whole));
    TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::shard(0), GradOf::Parts));
    return leave(step, columns);
  }
  const size_t weights = step.kind == Kind::Row ? 1 : all;
  TRIREME_TRY_DONE(expect(step, step.in, columns));
  TRIREME_TRY_DONE(expect_params(step, 0, weights, kColumns, GradOf::Parts));
  TRIREME_TRY_DONE(expect_params(step, weights, all, Placement::invariant(), GradOf::Whole));
  return leave(step, moved({Placement::partial()}, MeshAxis::Ep, rows));
}

Status FlowCheck::check_routing(const FlowStep& step) {
  const TensorPlacement tokens{Placement::replicate()};
  TRIREME_TRY_DONE(expect(step, step.in, tokens));
  if (step.kind == Kind::Count)
    return leave(step, moved(tokens, MeshAxis::Cp, Placement::partial()));
  if (step.kind == Kind::Balance) {
    TRIREME_TRY_DONE(expect(step, step.onto, moved(tokens, MeshAxis::Cp, Placement::invariant())));
    return leave(step, tokens);
  }
  // What goes back to the router comes from each rank's own columns.
  TRIREME_TRY_DONE(expect_params(step, 0, 1, Placement::invariant(), GradOf::Addend));
  TRIREME_TRY_DONE(
      expect_params(step, 1, step.params.size(), Placement::invariant(), GradOf::Whole));
  return leave(step, tokens);
}

// Own queries meet all keys, or this rank has heads of whole sequences.
Status FlowCheck::check_attention(const FlowStep& step) {
  const TensorPlacement own{kColumns};
  const TensorPlacement heads = moved(own, MeshAxis::Cp, kColumns);
  const TensorPlacement in = step.onto.empty() ? heads : own;
  TRIREME_TRY_DONE(expect(step, step.in, in));
  if (!step.onto.empty()) {
    TRIREME_TRY_DONE(expect(step, step.onto, moved(own, MeshAxis::Cp, Placement::replicate())));
  }
  return leave(step, in);
}

Status FlowCheck::check(const FlowStep& step) {
  const TensorPlacement residual{flow_.residual};
  const bool token_parts = flow_.residual == Placement::shard(0);
  const size_t all = step.params.size();
  switch (step.kind) {
    case Kind::Lookup:
      TRIREME_TRY_DONE(expect(step, step.in, {Placement::invariant()}));
      TRIREME_TRY_DONE(expect_params(step, 0, 1, Placement::shard(0), GradOf::Parts));
      // The gathered gradient has all tokens on all ranks.
      TRIREME_TRY_DONE(expect_params(step, 1, all, Placement::invariant(), GradOf::Whole));
      return leave(step, {Placement::partial()});
    case Kind::Norm:
      TRIREME_TRY_DONE(expect(step, step.in, residual));
      TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::invariant(),
                                     token_parts ? GradOf::Addend : GradOf::Whole));
      return leave(step, residual);
    case Kind::Route:
    case Kind::Count:
    case Kind::Balance:
      return check_routing(step);
    case Kind::Column:
    case Kind::Row:
    case Kind::Rows:
      return check_linear(step);
    case Kind::Attend:
      return check_attention(step);
    case Kind::Shards: {
      const Placement rows = as_written(step.in).ep;
      const TensorPlacement columns = moved({kColumns}, MeshAxis::Ep, rows);
      TRIREME_TRY_DONE(expect(step, step.in, columns));
      if (!step.onto.empty()) {
        TRIREME_TRY_DONE(
            expect(step, step.onto, moved({Placement::replicate()}, MeshAxis::Ep, rows)));
      }
      return leave(step, columns);
    }
    case Kind::Merge:
      TRIREME_TRY_DONE(expect(step, step.in, {Placement::partial()}));
      TRIREME_TRY_DONE(expect(step, step.onto, {Placement::partial()}));
      return leave(step, {Placement::partial()});
    case Kind::Enter:
    case Kind::Leave:
    case Kind::Join:
    case Kind::Exchange: {
      const TensorPlacement is = as_written(step.in);
      const Redistribution& change = step.move.change;
      TRIREME_TRY_DONE(expect(step, step.in, moved(is, step.move.axis, change.from)));
      return leave(step, moved(is, step.move.axis, change.to));
    }
    case Kind::Add:
      TRIREME_TRY_DONE(expect(step, step.in, residual));
      TRIREME_TRY_DONE(expect(step, step.onto, residual));
      return leave(step, residual);
    case Kind::Loss:
      TRIREME_TRY_DONE(expect(step, step.in, {Placement::replicate()}));
      TRIREME_TRY_DONE(expect_params(step, 0, all, Placement::shard(0), GradOf::Parts));
      return leave(step, {Placement::shard(0)});
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
