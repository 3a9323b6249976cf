export * from "../../src/testing/wireAnswers.ts"
