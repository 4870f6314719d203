#include "session/job_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/chrome_trace.h"
#include "comm/fabric.h"
#include "session/session.h"

namespace trireme {

JobRecord::JobRecord(const SessionOptions& options, MetricsFile& metrics, std::string run_fields)
    : page_(options.link->page()),
      epoch_(options.place->epoch),
      right_(options.link, options.place->epoch, options.out_dir),
      order_(options.order),
      metrics_(metrics),
      fields_(std::move(run_fields)) {}

void JobRecord::begin(const TrainPosition& position, const ResumePoint& resumed, int64_t joined_ns,
                      int64_t state_ns) {
  position_ = position.step;
  resumed_ = resumed;
  joined_ns_ = joined_ns;
  state_ns_ = state_ns;
  const int64_t now = steady_now_ns();
  page_.step = position_;
  page_.step_ns = now;
  if (page_.begun_ns == 0) {
    page_.begun_ns = now;
    page_.job = int64_t(std::random_device{}() | uint64_t{1} << 32);
    page_.furthest_step = position_;
    page_.furthest_ns = now;
  } else if (position_ >= page_.furthest_step) {  // nothing has to be done again
    page_.lost_ns += now - page_.furthest_ns;
    page_.furthest_ns = now;
  }
}

void JobRecord::write_restart() {
  const auto ms = [&](int64_t at_ns) { return double(at_ns - order_->detected_ns) * 1e-6; };
  std::string fields = fmt::format(
      "{},\"epoch\":{},\"ranks\":{},\"layout\":\"{}\",\"from\":\"{}\",\"checkpoint\":\"{}\","
      "\"redone_steps\":{},"
      "\"ms\":{{\"detect\":{:.3f},\"classify\":{:.3f},\"epoch\":{:.3f},\"join\":{:.3f},"
      "\"state\":{:.3f},\"first_step\":{:.3f}}}",
      fields_, epoch_, order_->size, text_of(order_->layout), resumed_.from,
      json_escaped(resumed_.name), std::max<int64_t>(0, page_.furthest_step - position_),
      double(order_->detected_ns - order_->lost_step_ns) * 1e-6, ms(order_->classified_ns),
      ms(order_->made_ns), ms(joined_ns_), ms(state_ns_), ms(page_.first_step_ns));
  metrics_.write_survived(order_->failures, position_, fields);
  page_.told_failures = order_->num_failures;
  const bool is_from_memory = resumed_.from == "memory" || resumed_.from == "parity";
  ++(is_from_memory ? page_.recoveries_from_memory : page_.recoveries_from_disk);
  page_.recovery_ns += page_.first_step_ns - order_->lost_step_ns;
}

void JobRecord::on_step(const StepReport& report) {
  right_.require();
  const int64_t now = steady_now_ns();
  if (!has_stepped_) {
    has_stepped_ = true;
    page_.first_step_ns = now;
    if (order_) write_restart();
    page_.trained_epoch = epoch_;
  }
  page_.step = report.step;
  page_.step_ns = now;
  if (report.step <= page_.furthest_step) page_.redone_steps += 1;
  if (report.step < page_.furthest_step) return;
  if (report.step == page_.furthest_step) page_.lost_ns += now - page_.furthest_ns;
  page_.furthest_step = report.step;
  page_.furthest_ns = now;
}

void JobRecord::on_checkpoint(const CheckpointReport& report) { page_.saved_step = report.step; }

void JobRecord::on_memory_checkpoint(const MemoryReport& report) {
  page_.memory_step = report.step;
  page_.memory_redone = report.most_redone;
}

SurvivedFailures survived_failures(const JobPage& page, int num_failures) {
  const double lost_s = double(page.lost_ns) * 1e-9;
  const double all_s = double(steady_now_ns() - page.begun_ns) * 1e-9;
  return {.failures = num_failures,
          .redone_steps = page.redone_steps,
          .lost_s = lost_s,
          .effective = all_s > 0.0 ? 1.0 - lost_s / all_s : 1.0};
}

}  // namespace trireme
