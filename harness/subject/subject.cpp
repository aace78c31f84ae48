#include "harness/subject/subject.hpp"
