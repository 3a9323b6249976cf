/** Every property as often as it asks, and every world of the simulator: before a release. */
import { mergeConfig } from "vitest/config"
import base from "./vitest.config.ts"

export default mergeConfig(base, { test: { env: { HOLDFAST_PROPERTY_RUNS: "whole" } } })
