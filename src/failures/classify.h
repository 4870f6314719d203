#pragma once

#include <string>

#include "failures/failure_evidence.h"
#include "failures/failure_rules.h"

namespace trireme {

// What a failure was, and why this is believed.
struct Classification {
  FailureClass failure_class = FailureClass::Unknown;
  double confidence = 0.0;
  std::string rule;      // its name; "": none applies
  std::string evidence;  // the line, the counter or the signal that has decided
  std::string remedy;
};

// Returns the class of the rule with the greatest confidence. The class is Unknown if no rule
// applies, if no confidence is above one half, or if rules of two classes have nearly the same
// confidence: a wrong class costs more than none.
Classification classify(const FailureEvidence& evidence, const FailureRules& rules);

}  // namespace trireme
