import { makeCalls } from "./calls";
import { connect } from "./orval";

// Orval 7 generates no operations of OPTIONS.
makeCalls(connect);
