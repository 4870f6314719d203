#include "jobs/export_job.h"

#include "base/check.h"
#include "jobs/export_forms.h"

namespace trireme {

Result<ExportedJob> export_job(const ExportRequest& request) {
  switch (request.trainer) {
    case Trainer::Megatron:
      return export_megatron(request);
    case Trainer::Torchtitan:
      return export_torchtitan(request);
    case Trainer::Deepspeed:
      return export_deepspeed(request);
    case Trainer::Nanotron:
      return export_nanotron(request);
    case Trainer::Accelerate:
      return export_accelerate(request);
  }
  TRIREME_CHECK(false, "unknown Trainer");
}

}  // namespace trireme
