#pragma once

// The library for those who embed it, in the order of its layers. Every header
// may also be included by itself.

// What long work tells its caller, errors with hints, devices and precision,
// processes that share a training.
#include "propagator/core/device.h"
#include "propagator/core/error.h"
#include "propagator/core/observer.h"
#include "propagator/core/ranks.h"

// Configurations: YAML, keys with meaning, bounds and roles.
#include "propagator/core/config.h"

// Simulators, as functions; and by name, with their keys.
#include "propagator/data/simulator.h"
#include "propagator/physics/wake/wake.h"

// Data: named tensors in HDF5, npz and CSV files.
#include "propagator/data/fields/field_file.h"
#include "propagator/data/named_table.h"
#include "propagator/data/tensor_file.h"

// Tasks: what a model is for; add_task registers one of your own.
#include "propagator/tasks/registry.h"
#include "propagator/tasks/surrogate.h"
#include "propagator/tasks/task.h"

// Runs: open one and apply its model, train, resume, test, predict, reproduce,
// report.
#include "propagator/run/comparison.h"
#include "propagator/run/configurations.h"
#include "propagator/run/predict.h"
#include "propagator/run/reproduce.h"
#include "propagator/run/run.h"
#include "propagator/run/run_report.h"
#include "propagator/run/simulation.h"
#include "propagator/run/test.h"
#include "propagator/run/train.h"
