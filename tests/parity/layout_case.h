#pragma once

#include <string>
#include <vector>

#include "layout_run.h"

namespace trireme {

// What is kept of every parameter: its bytes where the weight is bf16. In10 has gradients in fp32,
// the smaller ones have them in bf16.
enum class Kept { In18, In16, In12, In10, In8, In6 };
inline constexpr Kept kAllKept[] = {Kept::In18, Kept::In16, Kept::In12,
                                    Kept::In10, Kept::In8,  Kept::In6};

// A layout and the settings that must not change a bit beside it.
struct Case {
  int dp = 1;
  int pp = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int zero = 0;
  int hsdp_shard = 0;
  Recompute recompute = Recompute::None;
  std::string family = "gpt2";
  ComputeChoice compute = ComputeChoice::Fp32;
  Kept kept = Kept::In18;
  double dropout = 0.0;
  int tp = 1;
  bool sequence = false;
  int cp = 1;
  ContextExchange context = ContextExchange::Ring;
  int ep = 1;
  OffloadChoice offload = OffloadChoice::None;
  int64_t bucket_bytes = 0;
  int prefetch = 1;
  double clip_norm = 0.5;
  bool post_validate = false;
  int servers = 0;  // 0: no parameter server
  std::string order = "tp,cp,pp,dp";
  bool tp_overlap = false;
  bool in_slices = false;  // run.reproducible = "mesh"
  bool is_wide = false;    // a model that eight ranks can share along every axis
  int layers = 8;
  int sequences = 16;  // of one step
  // Recompute::Fit: how much of what "none" stores more than "full" the limit leaves.
  double room = 1.0;
  bool muon = false;
  double qk_clip = 0.0;     // with muon
  std::string frozen = "";  // patterns of parameters
  int lora_rank = 0;
  std::string lora_targets = "all";
  bool document_mask = false;
  std::string stage_tp = "", stage_dp = "", stage_layers = "";  // parallel.*

  std::string name() const;
  int ranks() const { return tp * cp * pp * dp; }
};

RunConfig config_of(const Case& c);
bool is_possible(const Case& c);
RunPlan plan_of(const Case& c);  // the layout must be possible
LayoutRun run_case(const Case& c);

// Returns the run whose bits every layout of a model must repeat: one rank, or as many as share its
// layers. If data-parallel ranks share experts, their micro-batches meet there, so these ranks and
// the assignment of micro-batches to them stay too.
const LayoutRun& reference_of(const Case& c);

}  // namespace trireme
