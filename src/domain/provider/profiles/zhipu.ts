/** Zhipu (Z.ai, BigModel). Numbers as codes, many of them behind one status. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const zhipu = makeProfile({
  name: "zhipu",
  baseUrls: ["open.bigmodel.cn", "api.z.ai"],
  codeAt: ["/error/code"],
  // Sources: docs.bigmodel.cn/cn/api/api-code, docs.z.ai/api-reference/api-code
  rows: [
    ...rowsOf("prompt_too_long", ["1261"]),
    ...rowsOf("quota_exhausted", ["1113", "1304", "1308", "1309", "1310"]),
    ...rowsOf("overloaded", ["1305", "1312"]),
    ...rowsOf("rate_limited", ["1302", "1303"]),
    ...rowsOf("content_filtered", ["1300", "1301"]),
    ...rowsOf("auth", ["1000", "1001", "1002", "1003", "1004", "1111"]),
    ...rowsOf("permission", ["1110", "1112", "1121", "1220", "1311"]),
    ...rowsOf("not_found", ["1211", "1221", "1222"]),
    ...rowsOf("server_error", ["500", "1100", "1120", "1200", "1230", "1234"], { status: 200 }),
    ...rowsOf("invalid_request", ["1210", "1212", "1213", "1214", "1215"], { status: 200 })
  ],
  finishReasons,
  finishFaults,
  // Sources: docs.bigmodel.cn/cn/guide/capabilities/thinking-mode, docs.z.ai/guides/capabilities/thinking-mode
  returns: { thoughts: ["reasoning_content"] }
})
