import { makeCalls } from "./calls";
import * as api from "./client/calls";
import { connect } from "./orval";

makeCalls((base, headers) => ({
  ...connect(base, headers),
  getContactOptions: () => api.getContactOptions({ base, headers }),
  getContactLegacyOptions: () => api.getContactLegacyOptions({ base, headers }),
}));
