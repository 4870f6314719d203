#include "autoparallel/unit_problem.h"

#include <gtest/gtest.h>

#include "autoparallel/integer_program_fixture.h"
#include "autoparallel/unit_fixture.h"
#include "collectives/move_collective.h"
#include "compile/link_cost.h"
#include "compile/unit_price.h"
#include "graph/moves.h"

namespace trireme {
namespace {

constexpr MeshPlacement kWhole = {DimPlacement::Invariant, DimPlacement::Invariant};
constexpr MeshPlacement kParted = {DimPlacement::Invariant, DimPlacement::Rows};

StageMesh line(int ranks, int64_t sequences) { return stage_meshes(ranks, sequences).front(); }
StageShape half_precision() { return {.compute = DType::BF16}; }

// Returns the seconds of all redistributions over tp in a layer of a uniform layout.
double seconds_of_moves(const ModelSpec& model, const StageShape& shape, const RankSpan& span,
                        const Hardware& hardware) {
  const StageMoves moves =
      stage_moves(model, {.num_layers = 1, .has_embedding = false, .has_head = false}, shape);
  double seconds = 0.0;
  for (const auto* list :
       {&moves.forward, &moves.recompute, &moves.backward_input, &moves.backward_weight}) {
    for (const TensorMove& move : *list) {
      const auto collective = collective_of(move.change, move.global, shape.tp, 0);
      if (!collective) continue;
      const double bytes = double(move.global.num_elements() * size_of(move.dtype));
      const double times = collective->collective == Collective::AllReduce ? 2.0 : 1.0;
      const double sent = times * bytes * (shape.tp - 1) / shape.tp;
      seconds += transfer_s(group_link(hardware, span), sent);
    }
  }
  return seconds;
}

TEST(UnitProblem, OneRoleForAllCostsWhatTheUniformLayoutCosts) {
  const Hardware hardware = one_node();
  for (const ModelSpec& model : {gpt_model(1024, 512), moe_model()}) {
    PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
    for (const Recompute recompute : kRecomputes) {
      for (const Role role : {Role::Data, Role::Tensor, Role::SequenceTensor}) {
        const StageMesh mesh = line(8, 16);
        const bool is_parted = role != Role::Tensor;
        const UnitSetting setting{.mesh = mesh,
                                  .recompute = recompute,
                                  .stream = is_parted ? kParted : kWhole,
                                  .roles = Roles{Role::Whole, role}};
        const UnitProblem unit = unit_problem(layer, setting);
        const auto found = least_seconds(unit.problem, {});
        ASSERT_TRUE(found);
        double compute_s = 0.0, step_s = 0.0;
        for (const int node : unit.node_of_group) {
          const GroupChoice& choice =
              unit.choices[size_t(node)][size_t(found->choices[size_t(node)])];
          compute_s += choice.compute_s;
          step_s += choice.step_s;
        }
        StageShape base = half_precision();
        base.recompute = recompute;
        const StageShape shape = *layout_of(model, base, mesh, {Role::Whole, role});
        const double priced_s = price_units(model, shape, hardware).layers.front().total_s();
        EXPECT_NEAR(compute_s, priced_s, 1e-9 * priced_s) << name_of(role);
        const double moves_s = seconds_of_moves(model, shape, mesh.dims[1].span, hardware);
        EXPECT_NEAR(found->cost.seconds - compute_s - step_s, moves_s, 1e-9 + 0.02 * moves_s)
            << name_of(role) << " recompute " << int(recompute);
      }
    }
  }
}

// Returns the fastest assignment if memory is limited to a share of the bytes that a single rank
// would need.
struct Found {
  std::string roles;
  double seconds = 0.0;
  double bytes = 0.0;
};
Found solve(PricedUnit& layer, const UnitSetting& setting, const ChoiceLimit& limit) {
  const UnitProblem unit = unit_problem(layer, setting);
  const auto found = least_seconds(unit.problem, limit);
  if (!found) return {"none", kImpossible, 0.0};
  const auto by_cbc = solve_integer_program(unit.problem, limit);
  EXPECT_NEAR(found->cost.seconds, by_cbc->cost.seconds, 1e-6 * found->cost.seconds);
  return {inner_roles(layer, unit, found->choices), found->cost.seconds,
          limit.bytes_of(found->cost)};
}
// Returns the fastest assignment in which all ops have these roles.
std::optional<Assignment> with_roles(PricedUnit& layer, UnitSetting setting, const Roles& roles) {
  setting.roles = roles;
  return least_seconds(unit_problem(layer, setting).problem, {});
}
double price_of(PricedUnit& layer, const UnitSetting& setting, Role role) {
  const auto found = with_roles(layer, setting, {Role::Whole, role});
  return found ? found->cost.seconds : kImpossible;
}

TEST(UnitProblem, FindsDataParallelismWhereWeightsAreSmall) {
  const ModelSpec model = gpt_model(512, 1024);
  const Hardware hardware = one_node();
  PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
  const UnitSetting setting{
      .mesh = line(8, 64), .sharding = StateSharding::Nothing, .stream = kParted};
  const Found found = solve(layer, setting, {});
  EXPECT_EQ(found.roles,
            "norm1=data attn.wq=data attn=data attn.wo=data norm2=data mlp.w_up=data "
            "mlp.w_up.activation=data mlp.w_down=data ");
  EXPECT_NEAR(found.seconds, price_of(layer, setting, Role::Data), 1e-12);
  EXPECT_GT(price_of(layer, setting, Role::SequenceTensor), 1.05 * found.seconds);
}

// Column-parallel, by head, row-parallel: no redistribution between the two products of a pair.
TEST(UnitProblem, FindsThePairsOfMegatronWhereABatchIsOneSequence) {
  const ModelSpec model = gpt_model(4096, 512);
  const Hardware hardware = one_node();
  PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
  UnitSetting setting{.mesh = line(8, 1), .num_microbatches = 8, .stream = kWhole};
  const Found found = solve(layer, setting, {});
  EXPECT_NE(found.roles.find("attn.wq=tensor attn=tensor attn.wo=tensor "), std::string::npos)
      << found.roles;
  EXPECT_NE(found.roles.find("mlp.w_up=tensor mlp.w_up.activation=tensor mlp.w_down=tensor "),
            std::string::npos)
      << found.roles;
  EXPECT_LE(found.seconds, price_of(layer, setting, Role::Tensor) * (1.0 + 1e-12));
  EXPECT_LT(found.seconds, price_of(layer, setting, Role::Context));
  EXPECT_LT(found.seconds, price_of(layer, setting, Role::Whole));
}

TEST(UnitProblem, FindsSequenceParallelismWhereMemoryIsShort) {
  const ModelSpec model = gpt_model(4096, 512);
  const Hardware hardware = one_node();
  PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
  UnitSetting setting{.mesh = line(8, 1), .num_microbatches = 8, .stream = kParted};
  const ChoiceLimit in_flight{.in_flight = 16.0};
  const auto tensor = with_roles(layer, setting, {Role::Whole, Role::Tensor});
  const auto parted = with_roles(layer, setting, {Role::Whole, Role::SequenceTensor});
  ASSERT_TRUE(tensor && parted);
  const double whole_bytes = in_flight.bytes_of(tensor->cost);
  const double parted_bytes = in_flight.bytes_of(parted->cost);
  ASSERT_LT(parted_bytes, 0.8 * whole_bytes);
  const Found found = solve(layer, setting, {parted_bytes * 1.001, 16.0});
  EXPECT_NE(found.roles.find("attn.wo=tensor+sequence "), std::string::npos) << found.roles;
  EXPECT_NE(found.roles.find("mlp.w_down=tensor+sequence "), std::string::npos) << found.roles;
  EXPECT_EQ(solve(layer, setting, {parted_bytes * 0.5, 16.0}).roles, "none");
}

TEST(UnitProblem, FindsExpertParallelismForAMixtureOfExperts) {
  const ModelSpec model = moe_model();
  const Hardware hardware = one_node();
  PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
  UnitSetting setting{.mesh = line(8, 16), .num_microbatches = 1, .stream = kParted};
  const double data_s = price_of(layer, setting, Role::Data);
  const double tensor_s = price_of(layer, setting, Role::SequenceTensor);
  const Found found = solve(layer, setting, {});
  EXPECT_NE(found.roles.find("mlp.experts.up=expert mlp.experts.swiglu=expert"), std::string::npos)
      << found.roles;
  EXPECT_NE(found.roles.find("mlp.experts.down=expert"), std::string::npos) << found.roles;
  EXPECT_LT(found.seconds, data_s);
  EXPECT_LT(found.seconds, tensor_s);
}

TEST(UnitProblem, TwoDimsAreNoWorseThanEitherAlone) {
  const ModelSpec model = gpt_model(2048, 512);
  const Hardware hardware = one_node();
  PricedUnit layer(layer_graph(model, 0), 0, model, half_precision(), hardware);
  for (const StageMesh& mesh : stage_meshes(16, 8)) {
    UnitSetting setting{.mesh = mesh, .num_microbatches = 4, .stream = kWhole};
    const UnitProblem unit = unit_problem(layer, setting);
    const auto found = least_seconds(unit.problem, {});
    ASSERT_TRUE(found) << to_string(mesh);
    for (const Role outer : kRoles) {
      for (const Role inner : kRoles) {
        const auto uniform = with_roles(layer, setting, {outer, inner});
        if (!uniform) continue;
        EXPECT_LE(found->cost.seconds, uniform->cost.seconds * (1.0 + 1e-12));
      }
    }
  }
}

}  // namespace
}  // namespace trireme
