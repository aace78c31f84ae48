#include "harness/rendezvous/file_store.hpp"
