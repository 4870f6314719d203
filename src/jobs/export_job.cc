#include "jobs/export_job.h"

#include "base/check.h"
#include "jobs/export_forms.h"

namespace trireme {

Result<ExportedJob> export_job(const ExportRequest& request) {
  switch (request.trainer) {
    case JobTrainer::Megatron:
      return export_megatron(request);
    case JobTrainer::Torchtitan:
      return export_torchtitan(request);
    case JobTrainer::Deepspeed:
      return export_deepspeed(request);
    case JobTrainer::Nanotron:
      return export_nanotron(request);
    case JobTrainer::Accelerate:
      return export_accelerate(request);
  }
  TRIREME_CHECK(false, "unknown JobTrainer");
}

}  // namespace trireme
