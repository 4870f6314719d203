#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "jobs/import_megatron.h"
#include "jobs/megatron_stages.h"

namespace trireme {
namespace {

int64_t ranks_of_a_copy(JobReader& job) {
  return megatron_degree(job, "--tensor-model-parallel-size") *
         megatron_degree(job, "--pipeline-model-parallel-size") *
         megatron_degree(job, "--context-parallel-size");
}

// The ranks of --set parallel.dp, of --ranks or of the script; 0 if none of them says it.
int64_t ranks_of_job(JobReader& job) {
  const bool is_in_script = job.has("--nproc-per-node");
  const int64_t written =
      is_in_script ? megatron_degree(job, "--nnodes") * megatron_degree(job, "--nproc-per-node")
                   : 0;
  const ImportRequest& request = job.request();
  if (is_overridden(request, "parallel.dp")) {
    const int64_t others = ranks_of_a_copy(job);
    return others < (int64_t{1} << 30) ? request.base.parallel.dp * others : 0;
  }
  return request.ranks ? int64_t{*request.ranks} : written;
}

void read_ranks(JobReader& job) {
  const int64_t others = ranks_of_a_copy(job);
  const bool is_in_script = job.has("--nproc-per-node");
  const int64_t ranks = ranks_of_job(job);
  if (is_overridden(job.request(), "parallel.dp")) return;
  if (!is_in_script) {
    const bool is_known = job.request().ranks || job.request().base.parallel.dp > 1;
    if (!is_known) {
      job.note(
          "the job does not say on how many ranks it runs: it is priced with dp = 1; give "
          "--ranks N");
    }
    return;
  }
  if (job.request().ranks && (others < 1 || ranks % others != 0)) return;  // --ranks is refused
  if (others < 1 || ranks < 1 || ranks % others != 0) {
    return job.wrong("--nproc-per-node",
                     fmt::format("tensor, pipeline and context degrees of {} together must divide "
                                 "the {} ranks",
                                 others, ranks),
                     "change one of them");
  }
  job.assign("parallel.dp", ranks / others, "--nproc-per-node");
}

constexpr const char* kStages = "--pipeline-model-parallel-layout";

// The stages that the job writes out. Returns the number of stages of a rank.
int64_t read_written_stages(JobReader& job, const std::string& text, int64_t pp) {
  constexpr size_t kMostLetters = 1 << 16;
  const auto stages = parse_megatron_stages(text, kMostLetters);
  if (!stages) {
    job.wrong(kStages, "is no list of stages", "write it as \"Et*7|t*9|t*9|t*7L\"");
    return 1;
  }
  const int64_t chunks = int64_t(stages->size()) / pp;
  if (int64_t(stages->size()) % pp != 0) {
    job.wrong(kStages, fmt::format("has {} stages for {} ranks", stages->size(), pp),
              "write a multiple of them");
    return 1;
  }
  std::vector<int64_t> layers;
  for (const MegatronStage& stage : *stages) layers.push_back(stage.layers);
  if (stages->size() > 1) job.assign_stages(layers, kStages);
  const bool is_apart = std::any_of(stages->begin(), stages->end(), [](const MegatronStage& stage) {
    return stage.ahead > 0 && !stage.has_loss;
  });
  if (is_apart) {
    job.note("the modules for further tokens are priced on the last stage, beside the loss");
  }
  return chunks;
}

// The stages as Megatron-LM cuts them: equal ones, unless the first or last have numbers of their
// own, or embedding and loss count as layers.
void cut_stages(JobReader& job, int64_t pp, int64_t chunks) {
  constexpr const char* kFirst = "--decoder-first-pipeline-num-layers";
  constexpr const char* kLast = "--decoder-last-pipeline-num-layers";
  const MegatronCut cut{.layers = job.integer("--num-layers").value_or(0),
                        .pp = pp,
                        .chunks = chunks,
                        .first_rank = job.integer(kFirst),
                        .last_rank = job.integer(kLast),
                        .counts_embedding = job.flag("--account-for-embedding-in-pipeline-split"),
                        .counts_loss = job.flag("--account-for-loss-in-pipeline-split")};
  const auto stages = megatron_stages(cut);
  if (stages) {
    return job.assign_stages(*stages, cut.first_rank ? kFirst : cut.last_rank ? kLast : "");
  }
  const std::string why = fmt::format("the {} layers cannot be cut so into {:.0f} stages",
                                      cut.layers, double(pp) * double(chunks));
  if (cut.first_rank || cut.last_rank) {
    return job.wrong(cut.first_rank ? kFirst : kLast, why,
                     "choose numbers that leave equally many layers for the other ranks");
  }
  if (cut.layers > 0) job.note(why + " of equal length; they are split by their cost here");
}

void read_pipeline(JobReader& job) {
  const int64_t pp = std::max<int64_t>(1, megatron_degree(job, "--pipeline-model-parallel-size"));
  int64_t chunks = job.integer("--num-virtual-stages-per-pipeline-rank").value_or(1);
  std::string_view key = "--num-virtual-stages-per-pipeline-rank";
  if (const auto layers = job.integer("--num-layers-per-virtual-pipeline-stage")) {
    key = "--num-layers-per-virtual-pipeline-stage";
    const int64_t of_rank = job.integer("--num-layers").value_or(0) / pp;
    if (*layers < 1 || of_rank % *layers != 0) {
      job.wrong(key, fmt::format("must divide the {} layers of a rank", of_rank), "take a divisor");
    } else {
      chunks = of_rank / *layers;
    }
  }
  if (const auto layout = job.word(kStages)) {
    key = kStages;
    chunks = read_written_stages(job, *layout, pp);
  } else if (pp > 1) {
    cut_stages(job, pp, chunks);
  }
  job.assign("parallel.schedule", std::string(chunks > 1 ? "interleaved" : "1f1b"), key);
  job.assign("parallel.chunks", chunks, key);
  const bool keeps_order = job.flag("--use-tp-pp-dp-mapping");
  if (!keeps_order) job.assign("parallel.order", std::string("tp,cp,dp,pp"));
}

void read_zero(JobReader& job) {
  int64_t zero = job.flag("--use-distributed-optimizer") ? 1 : 0;
  std::string_view key = "--use-distributed-optimizer";
  const std::string strategy = job.word("--data-parallel-sharding-strategy").value_or("no_shard");
  if (job.flag("--use-megatron-fsdp")) {
    key = "--data-parallel-sharding-strategy";
    constexpr std::string_view names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const auto* found = std::find(std::begin(names), std::end(names), strategy);
    if (found == std::end(names)) {
      job.wrong(key, "is unknown", "use no_shard, optim, optim_grads or optim_grads_params");
    } else {
      zero = found - std::begin(names);
    }
  } else if (job.flag("--use-torch-fsdp2")) {
    key = "--use-torch-fsdp2";
    zero = 3;
  }
  job.assign("parallel.zero", zero, key);
  const int64_t copies = job.integer("--num-distributed-optimizer-instances").value_or(1);
  if (copies <= 1) return;
  const int64_t tp_pp = megatron_degree(job, "--tensor-model-parallel-size") *
                        megatron_degree(job, "--pipeline-model-parallel-size");
  const int64_t ranks = ranks_of_job(job);
  if (ranks < 1 || tp_pp < 1 || (ranks / tp_pp) % copies != 0) {
    return job.wrong("--num-distributed-optimizer-instances",
                     "must divide the ranks of data and context parallelism",
                     "change it, or give --ranks N");
  }
  job.assign("parallel.hsdp_shard", ranks / tp_pp / copies,
             "--num-distributed-optimizer-instances");
}

void read_memory(JobReader& job) {
  const bool is_short = job.flag("--recompute-activations");
  const std::string policy =
      job.word("--recompute-granularity").value_or(is_short ? "selective" : "none");
  const std::string modules = job.word("--recompute-modules").value_or("core_attn");
  const std::string method = job.word("--recompute-method").value_or("uniform");
  const int64_t layers = job.integer("--recompute-num-layers").value_or(1);
  std::string recompute = "none";
  if (policy == "full") {
    recompute = "full";
    if (method != "uniform" || layers != 1) {
      job.refuse(method != "uniform" ? "--recompute-method" : "--recompute-num-layers",
                 "every layer is recomputed by itself here",
                 "use --recompute-method uniform --recompute-num-layers 1");
    }
  } else if (policy == "selective" && modules.find("layernorm") != std::string::npos) {
    recompute = "selective";
  } else if (policy == "selective" && modules == "core_attn") {
    job.note(
        "selective recomputation of core_attn is priced as none: attention never stores its "
        "scores here");
  } else if (policy == "selective") {
    job.refuse("--recompute-modules", "we recompute norms and activations, or nothing",
               "use layernorm moe_act");
  } else if (policy != "none") {
    job.wrong("--recompute-granularity", "is unknown", "use full or selective");
  }
  job.assign("memory.recompute", recompute, "--recompute-granularity");
  job.assign("memory.offload",
             std::string(job.flag("--optimizer-cpu-offload") ? "optimizer" : "none"),
             "--optimizer-cpu-offload");
}

}  // namespace

int64_t megatron_degree(JobReader& job, std::string_view key) {
  return std::clamp<int64_t>(job.integer(key).value_or(1), 0, 1 << 20);
}

void read_megatron_layout(JobReader& job) {
  read_ranks(job);
  job.rows("parallel.");
  read_pipeline(job);
  read_zero(job);
  read_memory(job);
}

}  // namespace trireme
